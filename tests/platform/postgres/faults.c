/* What goes wrong between a program and its server: the server is killed, connections are
 * cut at each message, an attempt arrives after its repetition, the disk is full, a
 * replica takes over. After each of them every message that was acknowledged is there
 * once, in the order of its client, and no other.
 *
 *   build/pg/faults FOLDER ROUNDS      (tests/platform/postgres.sh runs it)
 *
 * PG_SERVER names tests/platform/postgres/server.sh; servers are made in FOLDER.
 */

#define _GNU_SOURCE
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "store_text.h"
#include "backends/msgstore_postgres.h"
#include "locations.h"
#include "proxy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { CLIENTS = 8, APPENDS = 125 };

static const char *folder;
static int rounds;
static uint64_t retired;      /* shipped records that fall under a rule */


/* ---- servers ---- */

static int server_do(const char *what, const char *name, const char *rest)
{
    char command[700];
    snprintf(command, sizeof command, "bash %s %s %s/%s %s", getenv("PG_SERVER"), what,
             folder, name, rest);
    return system(command);
}

static void server_must(const char *what, const char *name, const char *rest)
{
    if (server_do(what, name, rest) != 0) fail_msg("server %s %s", what, name);
}

static const char *url_of(const char *name, const char *more)
{
    static char urls[8][400];
    static unsigned next;
    char *url = urls[next++ % 8];
    snprintf(url, sizeof urls[0], "host=%s/%s user=test dbname=postgres %s", folder, name,
             more);
    return url;
}

/* The server "one", as another user. */
static const char *url_as(const char *user, const char *more)
{
    static char url[400];
    snprintf(url, sizeof url, "host=%s/one dbname=postgres user=%s %s", folder, user,
             more);
    return url;
}

/* Runs SQL as the superuser; the first value comes back as a number. */
static long long ask_sql(const char *name, const char *sql)
{
    PGconn *conn = PQconnectdb(url_of(name, ""));
    PGresult *r = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    long long value = PQntuples(r) > 0 ? atoll(PQgetvalue(r, 0, 0)) : 0;
    PQclear(r);
    PQfinish(conn);
    return value;
}

static ms_pg_desc desc_of(const char *url)
{
    ms_pg_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.url = url;
    desc.partitions = 2;
    return desc;
}

static ms_store *open_desc(const ms_pg_desc *desc)
{
    ms_store *store;
    ms_error err;
    must_ok(ms_pg_open(&store, desc, &err), &err, "open");
    return store;
}

static ms_store *open_url(const char *url)
{
    ms_pg_desc desc = desc_of(url);
    return open_desc(&desc);
}

/* Appends "x" to a location of the name. */
static ms_result append_x(ms_store *store, const char *location)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    ms_result code = ms_append(store, ms_str_of(location), &m, NULL, &err);
    if (code != MS_OK) assert_int_equal(err.code, code);
    return code;
}

/* Runs a function in a thread of each client. */
static void each_client(void *(*run)(void *), void *arg, void *results[CLIENTS])
{
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, arg), 0);
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], &results[i]);
}

static void nap(int ms)
{
    struct timespec t = {0, 0};
    t.tv_sec = ms / 1000;
    t.tv_nsec = (long)(ms % 1000) * 1000000;
    nanosleep(&t, NULL);
}

static void forget(const char *name)
{
    ask_sql(name, "truncate msgstore_record, msgstore_location, msgstore_retired;"
                  " update msgstore_bucket set last = 0, stored = 0, hidden = 0, changes = 0, bytes = 0,"
                  " newest = 0");
}


/* ---- clients ---- */

/* A client appends messages "client:number" until it has APPENDS of them acknowledged. */
typedef struct client {
    pthread_t thread;
    int id;
    const char *url;
    uint32_t timeout_ms;
    bool stubborn;            /* goes on after MS_E_UNREACHABLE, with the same key */
    int acknowledged;
    uint64_t repeats, resolved;
    ms_error err;             /* of what failed */
    ms_result result;
} client;

static ms_str location_of(int id, char out[32])
{
    snprintf(out, 32, "place %d", id % 5); /* some clients share one */
    return ms_str_of(out);
}

/* Appends message n, or from n on a batch of three; in the ways that there are. */
static ms_result client_append(ms_store *store, client *c, int n, int *count)
{
    char texts[3][32], keys[3][32], place[32];
    ms_envelope m[3];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = location_of(c->id, place);
    *count = n % 5 == 4 && n + 3 <= APPENDS ? 3 : 1;
    for (int i = 0; i < *count; i++) {
        snprintf(texts[i], sizeof texts[i], "%d:%d", c->id, n + i);
        snprintf(keys[i], sizeof keys[i], "key %d:%d", c->id, n + i);
        m[i] = ms_user_message(ms_text(texts[i]));
        if (c->stubborn || n % 3 == 0) m[i].key = ms_str_of(keys[i]);
    }
    return ms_append_batch(store, m, (size_t)*count, &opts, &c->err);
}

static void *client_run(void *arg)
{
    client *c = (client *)arg;
    ms_pg_desc desc = desc_of(c->url);
    ms_store *store;
    desc.timeout_ms = c->timeout_ms;
    desc.connections = 1;
    c->result = ms_pg_open(&store, &desc, &c->err);
    if (c->result != MS_OK) return NULL;
    while (c->acknowledged < APPENDS && c->result == MS_OK) {
        int count;
        c->result = client_append(store, c, c->acknowledged, &count);
        if (c->result == MS_OK) c->acknowledged += count;
        if (c->stubborn && c->result != MS_OK) {
            c->result = MS_OK;
            nap(20);
        }
    }
    c->repeats = ms__pg_of(store)->repeats;
    c->resolved = ms__pg_of(store)->resolved;
    ms_close(store);
    return NULL;
}

static void clients_start(client *c, const char *url)
{
    memset(c, 0, CLIENTS * sizeof *c);
    for (int i = 0; i < CLIENTS; i++) {
        c[i].id = i;
        c[i].url = url;
        assert_int_equal(pthread_create(&c[i].thread, NULL, client_run, &c[i]), 0);
    }
}

static uint64_t repeats, resolved;

static void clients_join(client *c)
{
    for (int i = 0; i < CLIENTS; i++) pthread_join(c[i].thread, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        if (c[i].result != MS_OK)
            fail_msg("client %d after %d: %s", i, c[i].acknowledged, c[i].err.message);
        repeats += c[i].repeats;
        resolved += c[i].resolved;
    }
}

/* Every message of every client, once, in its order. */
static void must_have_all(ms_store *store)
{
    int next[CLIENTS] = {0};
    for (int place = 0; place < 5; place++) {
        char name[32];
        ms_cursor it;
        const ms_query q = query_of(location_of(place, name), 0);
        EACH (msg, store, &q, &it) {
            char text[32];
            int id, n;
            ms_str says = ms_content(msg).text;
            snprintf(text, sizeof text, "%.*s", (int)says.len, says.ptr);
            if (sscanf(text, "%d:%d", &id, &n) != 2) fail_msg("a message says %s", text);
            if (n != next[id]) fail_msg("client %d: %d, not %d", id, n, next[id]);
            next[id]++;
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        if (next[i] != APPENDS) fail_msg("client %d has %d of %d", i, next[i], APPENDS);
}


/* ---- the server is killed ---- */

static void appends_are_stored_once_when_the_server_is_killed(void **state)
{
    client c[CLIENTS];
    uint64_t rng = test_seed();
    (void)state;
    server_must("make", "killed", "autovacuum=off commit_delay=0");
    ms_store *store = open_url(url_of("killed", ""));
    for (int round = 0; round < rounds; round++) {
        clients_start(c, url_of("killed", ""));
        nap(20 + (int)test_below(&rng, 300));
        server_must("kill", "killed", "");
        nap((int)test_below(&rng, 400));
        server_must("start", "killed", "");
        clients_join(c);
        must_have_all(store);
        forget("killed");
    }
    ms_close(store);
    server_must("stop", "killed", "");
    test_tally("server kills amid 1,000 appends", (size_t)rounds);
    printf("tally: attempts repeated %llu, found stored %llu\n",
           (unsigned long long)repeats, (unsigned long long)resolved);
}


/* ---- connections are cut ---- */

enum { OPERATIONS = 7 };

static ms_result operation(ms_store *store, int what, int n, ms_error *err)
{
    char key[32];
    ms_envelope m[4];
    ms_append_opts opts;
    ms_stat stat;
    uint64_t seq = 0;
    memset(&opts, 0, sizeof opts);
    snprintf(key, sizeof key, "key %d", n);
    for (int i = 0; i < 4; i++) m[i] = ms_user_message(ms_text("x"));
    switch (what) {
    case 0: return ms_append(store, MS_STR("cut"), &m[0], NULL, err);
    case 1:
        m[0].key = ms_str_of(key);
        return ms_append(store, MS_STR("cut"), &m[0], NULL, err);
    case 2:
        opts.location = MS_STR("cut");
        return ms_append_batch(store, m, 4, &opts, err);
    case 3: /* keys of some: a transaction */
        opts.location = MS_STR("cut");
        m[1].key = ms_str_of(key);
        return ms_append_batch(store, m, 4, &opts, err);
    case 4: return ms_location_set(store, MS_STR("cut"), MS_STR("{\"a\":1}"), err);
    default: break;
    }
    ms_result code = ms_store_stat(store, &stat, err);
    seq = stat.last_seq;
    if (code == MS_OK && what == 6) {
        opts.location = MS_STR("cut");
        opts.expect = true;
        opts.expect_seq = seq;
        return ms_append_batch(store, m, 1, &opts, err);
    }
    m[0] = ms_user_message(ms_text("amended"));
    return code == MS_OK ? ms_amend(store, seq, &m[0], err) : code;
}

static const int adds[OPERATIONS] = {1, 1, 4, 4, 0, 0, 1};
static const int changes[OPERATIONS] = {0, 0, 0, 0, 1, 1, 0};

/* Each operation with the connection cut before each message in either direction, or
 * with an attempt that comes late, until an operation is over before the cut. */
static void operations_happen_once_when_connections_are_cut(void **state)
{
    size_t cuts = 0;
    int done = 0;
    proxy p;
    (void)state;
    server_must("make", "cut", "fsync=off autovacuum=off");
    proxy_open(&p, folder, "cut");
    char url[500];
    snprintf(url, sizeof url, "host=%s user=test dbname=postgres sslmode=disable"
             " gssencmode=disable", p.folder);
    ms_store *straight = open_url(url_of("cut", ""));
    ms_pg_desc desc = desc_of(url);
    desc.no_notify = true;
    assert_int_equal(append_x(straight, "cut"), MS_OK);
    for (int what = 0; what < OPERATIONS; what++) {
        for (int mode = PROXY_CUT_UP; mode <= PROXY_LATE; mode++) {
            bool was_cut = true;
            for (int at = 0; was_cut && at < 400; at++) {
                ms_store *store = open_desc(&desc);
                ms_stat before = stat_of(straight), after;
                ms_error err;
                proxy_arm(&p, (proxy_mode)mode, at);
                ms_result code = operation(store, what, done++, &err);
                was_cut = proxy_disarm(&p);
                if (code != MS_OK)
                    fail_msg("operation %d, mode %d, at %d: %s", what, mode, at,
                             err.message);
                after = stat_of(straight);
                if (after.messages - before.messages != (uint64_t)adds[what] ||
                    after.changes - before.changes != (uint64_t)changes[what])
                    fail_msg("operation %d, mode %d, at %d: %llu messages, %llu changes",
                             what, mode, at,
                             (unsigned long long)(after.messages - before.messages),
                             (unsigned long long)(after.changes - before.changes));
                ms_close(store);
                cuts += was_cut;
            }
        }
    }
    assert_int_equal(ask_sql("cut", "select sum(stored) - (select count(*) from"
                             " msgstore_record where kind = 1) from msgstore_bucket"), 0);
    assert_int_equal(ask_sql("cut", PG_WRONG_LOCATIONS), 0);
    assert_int_equal(ask_sql("cut", PG_WRONG_BUCKETS), 0);
    ms_close(straight);
    proxy_close(&p);
    server_must("stop", "cut", "");
    test_tally("connections cut at a message", cuts);
}


/* ---- a replica takes over ---- */

/* A standby serves readers, and does not take appends. */
static void must_only_read(const char *name)
{
    ms_pg_desc desc = desc_of(url_of(name, ""));
    ms_store *store;
    ms_error err;
    desc.read_only = true;
    int64_t end = ms__pg_now() + 20000; /* it follows the primary after a while */
    while (ms_pg_open(&store, &desc, &err) != MS_OK)
        if (ms__pg_now() > end) fail_msg("reading a standby: %s", err.message);
    (void)stat_of(store);
    assert_int_equal(append_x(store, "job"), MS_E_READ_ONLY);
    ms_close(store);
    desc.read_only = false;
    desc.timeout_ms = 500;
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_UNREACHABLE);
}

static void clients_go_on_when_a_replica_is_promoted(void **state)
{
    client c[CLIENTS];
    char url[700];
    uint64_t rng = test_seed() + 1;
    int times = rounds < 20 ? (rounds + 2) / 3 : rounds / 10;
    (void)state;
    for (int round = 0; round < times; round++) {
        char one[32], two[32], rest[500];
        snprintf(one, sizeof one, "primary%d", round);
        snprintf(two, sizeof two, "standby%d", round);
        server_must("make", one, "autovacuum=off wal_level=replica max_wal_senders=5");
        snprintf(rest, sizeof rest, "%s/%s 'synchronous_standby_names='", folder, one);
        server_must("copy", two, rest);
        ask_sql(one, "alter system set synchronous_standby_names = '*'");
        ask_sql(one, "select pg_reload_conf()");
        if (round == 0) {
            ms_close(open_url(url_of(one, "")));
            must_only_read(two);
        }
        snprintf(url, sizeof url, "host=%s/%s,%s/%s user=test dbname=postgres", folder,
                 one, folder, two);
        clients_start(c, url);
        nap(100 + (int)test_below(&rng, 400));
        server_must("kill", one, "");
        server_must("promote", two, "");
        clients_join(c);
        ms_store *store = open_url(url_of(two, ""));
        must_have_all(store);
        ms_close(store);
        server_must("stop", two, "");
        char command[400];
        snprintf(command, sizeof command, "rm -rf %s/%s %s/%s", folder, one, folder, two);
        assert_int_equal(system(command), 0);
    }
    test_tally("replicas promoted", (size_t)times);
}


/* ---- the disk is full ---- */

static void nothing_acknowledged_is_lost_when_the_disk_is_full(void **state)
{
    char command[600], filler[400];
    int stored = 0;
    bool full = false;
    (void)state;
    snprintf(command, sizeof command, "mkdir -p %s/full && mount -t tmpfs -o size=200m,"
             "mode=755 msgstore_pg %s/full 2>/dev/null", folder, folder);
    if (system(command) != 0) {
        printf("skip: no right to mount a small file system\n");
        skip();
    }
    server_must("make", "full", "autovacuum=off min_wal_size=32MB max_wal_size=48MB"
                                " wal_recycle=off");
    snprintf(filler, sizeof filler, "%s/full/filler", folder);
    FILE *f = fopen(filler, "wb");
    for (int i = 0; i < 80 * 1024; i++) fwrite(command, 1, sizeof command, f);
    fclose(f);
    ms_pg_desc desc = desc_of(url_of("full", ""));
    desc.timeout_ms = 1500;
    ms_store *store = open_desc(&desc);
    char *text = (char *)malloc(60000);
    uint64_t rng = test_seed();
    for (int i = 0; i < 60000; i++) text[i] = (char)('!' + test_below(&rng, 90));
    for (int i = 0; i < 20000 && !full; i++) {
        char key[32];
        ms_error err;
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, 60000)));
        snprintf(key, sizeof key, "key %d", i);
        m.key = ms_str_of(key);
        ms_result code = ms_append(store, MS_STR("full"), &m, NULL, &err);
        full = code != MS_OK;
        stored += code == MS_OK;
        if (full && code != MS_E_FULL && code != MS_E_UNREACHABLE)
            fail_msg("a full disk: %d, %s", code, err.message);
    }
    assert_true(full);
    assert_int_equal(remove(filler), 0);
    server_do("kill", "full", "");
    server_must("start", "full", "");
    desc.timeout_ms = 30000;
    ms_close(store);
    store = open_desc(&desc);
    assert_int_equal(append_x(store, "full"), MS_OK);
    ms_stat stat = stat_of(store);
    assert_in_range(stat.messages, (uint64_t)stored + 1, (uint64_t)stored + 2);
    assert_int_equal(ask_sql("full", "select count(*) from msgstore_record"),
                     (long long)stat.messages);
    ms_close(store);
    free(text);
    server_do("stop", "full", "");
    snprintf(command, sizeof command, "umount -l %s/full", folder);
    assert_int_equal(system(command), 0);
    test_tally("disks filled up", 1);
}


/* ---- one server for the rest: each test has an empty store, `one` ---- */

static ms_store *one;

static int open_one(void **state)
{
    (void)state;
    one = open_url(url_of("one", ""));
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    ms_close(one);
    forget("one");
    return 0;
}

#define ON_ONE(test) cmocka_unit_test_setup_teardown(test, open_one, close_one)

static void a_call_returns_in_its_time_when_no_server_is_there(void **state)
{
    ms_store *store;
    ms_error err;
    ms_pg_desc desc = desc_of("host=/nonexistent user=test");
    (void)state;
    desc.timeout_ms = 300;
    int64_t start = ms__pg_now();
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_UNREACHABLE);
    assert_in_range((uint64_t)(ms__pg_now() - start), 200, 2000);
    assert_null(store);

    desc = desc_of(url_of("one", ""));
    desc.timeout_ms = 1000;
    store = open_desc(&desc);
    assert_int_equal(append_x(store, "job"), MS_OK);
    server_must("kill", "one", "");
    start = ms__pg_now();
    assert_int_equal(append_x(store, "job"), MS_E_UNREACHABLE);
    assert_in_range((uint64_t)(ms__pg_now() - start), 900, 5000);
    start = ms__pg_now();
    assert_int_equal(ms_wait(store, 0, 100, NULL, &err), MS_E_UNREACHABLE);
    assert_in_range((uint64_t)(ms__pg_now() - start), 900, 5000);
    server_must("start", "one", "");
    assert_int_equal(stat_of(store).messages, 1);
    ms_close(store);
}

static void an_append_is_busy_when_a_statement_takes_too_long(void **state)
{
    ms_pg_desc desc = desc_of(url_of("one", ""));
    (void)state;
    desc.statement_ms = 200;
    ms_store *store = open_desc(&desc);
    PGconn *other = PQconnectdb(url_of("one", ""));
    PQclear(PQexec(other, "begin"));
    PQclear(PQexec(other, "select * from msgstore_bucket for update"));
    assert_int_equal(append_x(store, "job"), MS_E_BUSY);
    PQclear(PQexec(other, "rollback"));
    PQfinish(other);
    assert_int_equal(append_x(store, "job"), MS_OK);
    assert_int_equal(stat_of(store).messages, 1);
    ms_close(store);
}

static void *append_to_silent(void *arg)
{
    assert_int_equal(append_x((ms_store *)arg, "silent"), MS_OK);
    return NULL;
}

/* Opens the server of that URL, and appends; NULL: both succeed. */
static void *open_and_append(void *url)
{
    ms_store *store;
    ms_error err;
    ms_pg_desc desc = desc_of((const char *)url);
    if (ms_pg_open(&store, &desc, &err) != MS_OK) return url;
    ms_result code = append_x(store, "migrated");
    ms_close(store);
    return code == MS_OK ? NULL : url;
}

/* Begins a transaction that has the lock of "job", and stops in it. */
static ms_result freeze_step(ms__pg *s, ms__pg_line *line, void *ctx, ms_error *err)
{
    char sql[100];
    (void)s;
    snprintf(sql, sizeof sql, "begin; select * from msgstore_bucket where bucket = %u"
             " for update", ms_pg_bucket(MS_STR("job")));
    ms_result code = ms__pg_simple(line, sql, err);
    *(int *)ctx += 1;
    if (*(int *)ctx == 1 && code == MS_OK) nap(9000);
    return code == MS_OK ? ms__pg_simple(line, "rollback", err) : code;
}

static void *freeze(void *arg)
{
    int times = 0;
    ms_error err;
    ms_result code = ms__pg_call(ms__pg_of((ms_store *)arg), 0, freeze_step, &times, &err);
    return (void *)(uintptr_t)(code == MS_OK ? times : 100);
}

/* A client that is stopped amid a transaction holds its locks for 5 s. Woken, it repeats
 * what it did. */
static void appends_go_on_when_a_client_is_frozen_amid_a_transaction(void **state)
{
    pthread_t thread;
    void *times;
    ms_pg_desc desc = desc_of(url_of("one", ""));
    ms_store *frozen = open_desc(&desc);
    (void)state;
    assert_int_equal(append_x(one, "job"), MS_OK);
    pthread_create(&thread, NULL, freeze, frozen);
    nap(300);
    int64_t start = ms__pg_now();
    assert_int_equal(append_x(one, "job"), MS_OK);
    assert_in_range((uint64_t)(ms__pg_now() - start), 2000, 7500);
    pthread_join(thread, &times);
    assert_int_equal((uintptr_t)times, 2);
    ms_close(frozen);
}

/* All connections of the pool become silent at once, as when a router forgets them. No
 * call fails, and only the first one waits. */
static void no_call_fails_when_connections_are_dropped_silently(void **state)
{
    proxy p;
    char url[500];
    void *none[CLIENTS];
    (void)state;
    proxy_open(&p, folder, "one");
    snprintf(url, sizeof url, "host=%s user=test dbname=postgres sslmode=disable"
             " gssencmode=disable", p.folder);
    ms_pg_desc desc = desc_of(url);
    desc.timeout_ms = 6000;
    desc.no_notify = true;
    ms_store *store = open_desc(&desc);
    each_client(append_to_silent, store, none); /* some connections */
    proxy_silence(&p);
    for (int i = 0; i < 4; i++) {
        int64_t start = ms__pg_now();
        ms_result code = append_x(store, "silent");
        if (code != MS_OK) fail_msg("append %d: %d", i, code);
        assert_in_range((uint64_t)(ms__pg_now() - start), 0, i == 0 ? 5000 : 1500);
    }
    assert_int_equal(stat_of(one).messages, CLIENTS + 4);
    ms_close(store);
    proxy_close(&p);
}

/* Rows of the records that were read one after the other, or through primary keys, by
 * sessions that have ended. */
static long long rows_scanned(void)
{
    nap(300);
    return ask_sql("one", "select (select coalesce(sum(idx_tup_read), 0) from"
                          " pg_stat_user_indexes where indexrelname like"
                          " 'msgstore_record%pkey') + (select coalesce(sum(seq_tup_read),"
                          " 0) from pg_stat_user_tables where relname like"
                          " 'msgstore_record%')");
}

/* Few locations with many messages each: changes, and the newest of an old conversation,
 * are read by their indexes, not by the primary key. */
static void queries_of_a_location_use_its_indexes(void **state)
{
    ms_query q;
    ms_envelope *m = (ms_envelope *)calloc(5000, sizeof *m);
    static const char *const places[] = {"old", "newer", "newest"};
    ms_append_opts opts;
    ms_error err;
    (void)state;
    memset(&opts, 0, sizeof opts);
    ask_sql("one", "create schema planned");
    ms_pg_desc desc = desc_of(url_of("one", "options=-csearch_path=planned"));
    desc.partitions = 1;
    ms_store *store = open_desc(&desc);
    for (int i = 0; i < 5000; i++) m[i] = ms_user_message(ms_text("some text"));
    for (int i = 0; i < 24; i++) {
        opts.location = ms_str_of(places[i / 8]);
        must_ok(ms_append_batch(store, m, 5000, &opts, &err), &err, "batch");
    }
    free(m);
    must_ok(ms_location_set(store, MS_STR("old"), MS_STR("{\"a\":1}"), &err), &err, "set");
    ask_sql("one", "analyze planned.msgstore_record");
    ms_close(store);
    long long before = rows_scanned();
    store = open_desc(&desc);
    for (int i = 0; i < 8; i++) { /* also when the statement was used before */
        memset(&q, 0, sizeof q);
        q.location = MS_STR("old");
        q.limit = 20;
        assert_int_equal(count_of(store, &q), 20);
        q.limit = 0;
        q.raw = MS_RAW_LOCATIONS;
        assert_int_equal(count_of(store, &q), 1);
    }
    ms_close(store);
    assert_in_range((uint64_t)(rows_scanned() - before), 0, 1000);
    ask_sql("one", "drop schema planned cascade");
}

/* Statements that read the totals, by sessions that have ended. */
static long long totals_read(void)
{
    nap(300);
    return ask_sql("one", "select coalesce(sum(seq_scan), 0)::bigint from"
                          " pg_stat_user_tables where relname = 'msgstore_bucket'");
}

static void an_idle_waiter_asks_seldom(void **state)
{
    ms_error err;
    uint64_t last = 0;
    (void)state;
    assert_int_equal(append_x(one, "job"), MS_OK);
    long long before = totals_read();
    ms_store *store = open_url(url_of("one", ""));
    ms_stat stat = stat_of(store);
    must_ok(ms_wait(store, stat.last_seq, 4000, &last, &err), &err, "wait");
    assert_int_equal(last, stat.last_seq);
    ms_close(store);
    assert_in_range((uint64_t)(totals_read() - before), 1, 20);
}

/* Sends a lock of the counter of the location "job", and does not wait for its answer. */
static PGconn *lock_job(void)
{
    PGconn *conn = PQconnectdb(url_of("one", ""));
    char sql[100];
    snprintf(sql, sizeof sql, "begin; select * from msgstore_bucket where bucket = %u"
             " for update", ms_pg_bucket(MS_STR("job")));
    assert_int_equal(PQsendQuery(conn, sql), 1);
    nap(100);
    return conn;
}

static void *append_to_job(void *arg)
{
    return (void *)(uintptr_t)append_x((ms_store *)arg, "job");
}

/* Another client keeps the lock of the bucket: the append does not wait for ever, and its
 * error says for what. */
static void an_append_names_the_lock_that_it_did_not_get(void **state)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_pg_desc desc = desc_of(url_of("one", "application_name=x"));
    (void)state;
    ms_store *probe = open_url(url_of("one", ""));
    assert_int_equal(append_x(probe, "job"), MS_OK);
    ms_close(probe);
    desc.timeout_ms = 4000;
    ms_store *store = open_desc(&desc);
    PGconn *lock = lock_job();
    int64_t start = ms__pg_now();
    ms_result code = ms_append(store, MS_STR("job"), &m, NULL, &err);
    int64_t end = ms__pg_now();
    ms_result elsewhere = append_x(store, "another place");
    PQfinish(lock);
    assert_int_equal(code, MS_E_BUSY);
    assert_in_range((uint64_t)(end - start), 900, 4000);
    assert_non_null(strstr(err.message, "another client has held the lock"));
    assert_int_equal(elsewhere, MS_OK);
    assert_int_equal(append_x(store, "job"), MS_OK);
    ms_close(store);
}

/* Two locations: one with amended, hidden and open messages, one with none to show. */
static void append_of_each_kind(ms_store *store)
{
    ms_error err;
    uint64_t seqs[4];
    ms_envelope m = ms_user_message(ms_text("x"));
    for (int i = 0; i < 4; i++)
        assert_int_equal(ms_append(store, MS_STR("kinds"), &m, &seqs[i], &err), MS_OK);
    m.content = ms_text("amended");
    assert_int_equal(ms_amend(store, seqs[2], &m, &err), MS_OK);
    assert_int_equal(ms_hide(store, seqs[0], &err), MS_OK);
    assert_int_equal(ms_hide(store, seqs[3], &err), MS_OK);
    assert_int_equal(ms_location_set(store, MS_STR("facts"), MS_STR("{\"a\":1}"), &err),
                     MS_OK);
}

/* Newest first, with a prefix, and a limit: as many rows of the table are read. */
static void a_listing_is_by_the_table_of_locations(void **state)
{
    char name[40];
    ms_error err;
    ms_listing list;
    ms_arena arena;
    ms_list_query of;
    uint64_t last = 0;
    (void)state;
    memset(&arena, 0, sizeof arena);
    memset(&of, 0, sizeof of);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "%s/%d", i % 3 ? "\xC3\xBF" : "a%_", i);
        assert_int_equal(append_x(one, name), MS_OK);
    }
    append_of_each_kind(one);
    must_ok(ms_list(one, &of, &arena, &list, &err), &err, "list");
    assert_int_equal(list.count, 31);
    assert_true(ms_str_equal(list.items[0].location, MS_STR("kinds")));
    assert_int_equal(list.items[0].messages, 2);
    for (size_t i = 0; i < list.count; i++) {
        assert_true(i == 0 || list.items[i].last_seq < last);
        last = list.items[i].last_seq;
    }
    of.limit = 4;
    of.prefix = MS_STR("a%_/");
    must_ok(ms_list(one, &of, &arena, &list, &err), &err, "list");
    assert_int_equal(list.count, 4);
    assert_true(ms_str_equal(list.items[0].location, MS_STR("a%_/27")));
    of.limit = 0;
    must_ok(ms_list(one, &of, &arena, &list, &err), &err, "list");
    assert_int_equal(list.count, 10);
    of.prefix = MS_STR("\xC3\xBF");
    must_ok(ms_list(one, &of, &arena, &list, &err), &err, "list");
    assert_int_equal(list.count, 20);
    assert_int_equal(ask_sql("one", PG_WRONG_LOCATIONS), 0);
    ms_arena_deinit(&arena);
}

/* The first attempt and a lock wait behind another lock. The answer to the attempt is cut
 * off, so the repetition waits for the second lock. */
static void an_append_is_in_doubt_when_its_repetition_is_busy(void **state)
{
    char url[500];
    size_t in_doubt = 0;
    static proxy p;
    (void)state;
    proxy_open(&p, folder, "one");
    snprintf(url, sizeof url, "host=%s user=test dbname=postgres sslmode=disable"
             " gssencmode=disable", p.folder);
    ms_pg_desc desc = desc_of(url);
    desc.statement_ms = 600;
    desc.no_notify = true;
    for (int round = 0; round < 20 && in_doubt == 0; round++) {
        pthread_t thread;
        void *code;
        ms_store *store = open_desc(&desc);
        assert_int_equal(append_x(store, "job"), MS_OK); /* prepares the statement */
        PGconn *first = lock_job();
        proxy_arm(&p, PROXY_CUT_DOWN, 0);
        pthread_create(&thread, NULL, append_to_job, store);
        nap(100);
        PGconn *second = lock_job();
        PQfinish(first);
        pthread_join(thread, &code);
        PQfinish(second);
        assert_true(proxy_disarm(&p));
        if ((uintptr_t)code != MS_OK) assert_int_equal(code, MS_E_UNREACHABLE);
        in_doubt += (uintptr_t)code != MS_OK;
        assert_int_equal(stat_of(store).messages, 2 * (round + 1));
        ms_close(store);
    }
    assert_int_equal(in_doubt, 1);
    proxy_close(&p);
}

enum { MANY = 3000 };

/* Appends MANY messages to a location in one batch. */
static void append_many(ms_store *store, ms_str location)
{
    static ms_envelope m[MANY];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = location;
    for (int i = 0; i < MANY; i++) m[i] = ms_user_message(ms_text("some text"));
    assert_int_equal(ms_append_batch(store, m, MANY, &opts, NULL), MS_OK);
}

static void a_cursor_goes_on_when_its_connection_is_cut(void **state)
{
    (void)state;
    append_many(one, MS_STR("long"));
    for (int by_time = 0; by_time < 2; by_time++) {
        ms_arena arena;
        ms_cursor it;
        ms_query q = query_of(MS_STR("long"), 0);
        size_t n = 0;
        test_arena_init(&arena, NULL);
        q.by_time = by_time != 0;
        q.arena = &arena;
        EACH (msg, one, &q, &it)
            if (msg != NULL && n++ % 20 == 0)
                ask_sql("one", "select count(pg_terminate_backend(pid)) from"
                               " pg_stat_activity where pid <> pg_backend_pid()"
                               " and backend_type = 'client backend'");
        assert_int_equal(n, MANY);
        ms_arena_deinit(&arena);
    }
}

/* Returns the processor time of this process for a batch, in ms. */
static int64_t batch_time(size_t n, bool keyed)
{
    ms_envelope *m = (ms_envelope *)calloc(n, sizeof *m);
    char (*keys)[24] = (char (*)[24])calloc(n, sizeof *keys);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("batch");
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "a key %lu", (unsigned long)i);
        m[i] = ms_user_message(ms_text("some text"));
        if (keyed) m[i].key = ms_str_of(keys[i]);
    }
    clock_t start = clock();
    assert_int_equal(ms_append_batch(one, m, n, &opts, NULL), MS_OK);
    int64_t ms = (int64_t)(clock() - start) * 1000 / CLOCKS_PER_SEC;
    free(m);
    free(keys);
    return ms;
}

static void a_batch_costs_little_more_when_its_messages_have_keys(void **state)
{
    (void)state;
    int64_t without = batch_time(20000, false), with = batch_time(20000, true);
    if (with > 8 * without + 50)
        fail_msg("%d ms without keys, %d with", (int)without, (int)with);
}

static void a_batch_stores_a_message_once_when_its_key_is_there_twice(void **state)
{
    static const char *const keys[] = {"b", "a", "b", NULL, "b", "a"};
    ms_envelope m[6];
    uint64_t seqs[6];
    ms_append_opts opts;
    (void)state;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("job");
    opts.seqs = seqs;
    for (int i = 0; i < 6; i++) {
        m[i] = ms_user_message(ms_text(keys[i] ? keys[i] : "none"));
        if (keys[i]) m[i].key = ms_str_of(keys[i]);
    }
    assert_int_equal(ms_append_batch(one, m, 6, &opts, NULL), MS_OK);
    assert_int_equal(stat_of(one).messages, 3);
    assert_int_equal(seqs[2], seqs[0]);
    assert_int_equal(seqs[4], seqs[0]);
    assert_int_equal(seqs[5], seqs[1]);
    assert_true(seqs[0] < seqs[1] && seqs[1] < seqs[3]);
    m[5].content = ms_text("other");
    assert_int_equal(ms_append_batch(one, m, 6, &opts, NULL), MS_E_KEY_REUSED);
}

/* What a child of fork gets from the calls that reach the server. */
static int child_of_fork(ms_store *store, ms_cursor *it, const ms_msg *message)
{
    ms_error err;
    while (ms_next(it) != NULL) continue;
    if (ms_cursor_close(it, &err) != MS_E_FORKED) return 1;
    if (ms_pg_ship_change(store, MS_STR("s"), NULL, message, message, &retired, &err) !=
        MS_E_FORKED)
        return 2;
    return 0;
}

static void a_parent_reads_on_when_its_child_uses_the_cursor(void **state)
{
    const ms_query q = query_of(MS_STR("long"), 0);
    const ms_msg *msg;
    ms_cursor it;
    size_t n = 0;
    int status = -1;
    (void)state;
    append_many(one, MS_STR("long"));
    assert_int_equal(ms_query_open(one, &q, &it, NULL), MS_OK);
    assert_non_null(msg = ms_next(&it));
    pid_t child = fork();
    if (child == 0) _exit(child_of_fork(one, &it, msg));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    for (n = 1; ms_next(&it) != NULL; n++) continue;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, MANY);
}

static void appends_are_repeated_when_transactions_are_serializable(void **state)
{
    client c[CLIENTS];
    uint64_t before = repeats;
    (void)state;
    clients_start(c, url_of("one", "options='-c default_transaction_isolation="
                                   "serializable'"));
    clients_join(c);
    must_have_all(one);
    printf("tally: serialisation failures repeated %llu\n",
           (unsigned long long)(repeats - before));
    assert_true(repeats > before);
}

/* Eight clients count up together, one number at a time or two: each is had by one. */
static void *count_up(void *arg)
{
    ms_store *store = (ms_store *)arg;
    size_t *won = (size_t *)calloc(1, sizeof *won);
    for (int tries = 0; tries < 400 && *won < 20; tries++) {
        ms_cursor it;
        ms_append_opts opts;
        const ms_msg *msg;
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("count");
        opts.expect = true;
        if (ms_get_conversation_messages(store, opts.location, 1, &it, NULL) != MS_OK)
            continue;
        char texts[2][16];
        ms_envelope m[2];
        int next = 0;
        if ((msg = ms_next(&it)) != NULL) {
            opts.expect_seq = ms_seq(msg);
            next = atoi(ms_content(msg).text.ptr) + 1;
        }
        ms_cursor_close(&it, NULL);
        for (int i = 0; i < 2; i++) {
            snprintf(texts[i], sizeof texts[i], "%d", next + i);
            m[i] = ms_user_message(ms_text(texts[i]));
        }
        size_t n = 1 + (size_t)tries % 2;
        if (ms_append_batch(store, m, n, &opts, NULL) == MS_OK) *won += n;
    }
    return won;
}

static void one_append_wins_when_all_expect_the_same(void **state)
{
    void *won[CLIENTS];
    const ms_query q = query_of(MS_STR("count"), 0);
    size_t total = 0, next = 0;
    ms_cursor it;
    (void)state;
    each_client(count_up, one, won);
    for (int i = 0; i < CLIENTS; i++) {
        total += *(size_t *)won[i];
        free(won[i]);
    }
    EACH (msg, one, &q, &it) {
        char text[16];
        ms_str says = ms_content(msg).text;
        snprintf(text, sizeof text, "%.*s", (int)says.len, says.ptr);
        assert_int_equal(atoi(text), next);
        next++;
    }
    assert_int_equal(next, total);
}

static void *append_later(void *arg)
{
    nap(300);
    append_x((ms_store *)arg, "job");
    return NULL;
}

static void *append_elsewhere(void *arg)
{
    for (int i = 0; i < APPENDS; i++) {
        append_x((ms_store *)arg, "elsewhere");
        nap(12);
    }
    return NULL;
}

static void a_waiter_wakes_when_another_client_appends(void **state)
{
    ms_store *other = open_url(url_of("one", ""));
    pthread_t thread;
    uint64_t seq = 0;
    (void)state;
    int64_t start = ms__pg_now();
    pthread_create(&thread, NULL, append_later, other);
    assert_int_equal(ms_wait(one, 0, 20000, &seq, NULL), MS_OK);
    assert_true(seq > 0);
    assert_in_range((uint64_t)(ms__pg_now() - start), 250, 10000);
    pthread_join(thread, NULL);
    start = ms__pg_now();
    assert_int_equal(ms_wait(one, seq, 200, &seq, NULL), MS_OK);
    assert_in_range((uint64_t)(ms__pg_now() - start), 150, 10000);
    ms_close(other);
}

/* Statements that look at a location for a waiter, by sessions that have ended. */
static long long looks(void)
{
    nap(300);
    return ask_sql("one", "select coalesce(sum(idx_scan), 0)::bigint from"
                          " pg_stat_user_tables where relname = 'msgstore_location'");
}

/* Appends elsewhere wake nobody who waits for a location: the waiter looks at one row, a
 * few times a second. An append and a change there wake it, also before the call. */
static void a_waiter_of_a_location_wakes_for_it_alone(void **state)
{
    ms_error err;
    pthread_t thread;
    uint64_t place = 1, before_set;
    ms_str job = MS_STR("job");
    (void)state;
    ms_store *other = open_url(url_of("one", ""));
    ms_store *reader = open_url(url_of("one", ""));
    must_ok(ms_pg_wait(reader, job, &place, 20000, &err), &err, "wait");
    assert_int_equal(place, 0);
    int64_t start = ms__pg_now();
    pthread_create(&thread, NULL, append_later, other);
    must_ok(ms_pg_wait(reader, job, &place, 20000, &err), &err, "wait");
    pthread_join(thread, NULL);
    assert_int_equal(place, stat_of(one).last_seq);
    assert_in_range((uint64_t)(ms__pg_now() - start), 250, 5000);
    before_set = place;
    must_ok(ms_location_set(other, job, MS_STR("{\"a\":1}"), &err), &err, "set");
    start = ms__pg_now();
    must_ok(ms_pg_wait(reader, job, &place, 20000, &err), &err, "wait");
    assert_in_range((uint64_t)(ms__pg_now() - start), 0, 5000);
    assert_true(place > before_set);
    long long before = looks();
    ms_close(reader);
    reader = open_url(url_of("one", ""));
    start = ms__pg_now();
    pthread_create(&thread, NULL, append_elsewhere, other);
    must_ok(ms_pg_wait(reader, job, &place, 2000, &err), &err, "wait");
    assert_in_range((uint64_t)(ms__pg_now() - start), 1900, 10000);
    pthread_join(thread, NULL);
    ms_close(reader);
    ms_close(other);
    /* each append enters its location, too */
    long long n = looks() - before - APPENDS;
    if (n > 40) fail_msg("%lld looks in two seconds", n);
}

static void *wait_for_job(void *arg)
{
    uint64_t place = 0;
    ms_error err;
    must_ok(ms_pg_wait((ms_store *)arg, MS_STR("job"), &place, 20000, &err), &err, "wait");
    return NULL;
}

/* A session that listens, and does not say so as waiters do, hears nothing: notifications
 * wake all sessions, so they are sent where somebody waits. */
static void a_notification_is_sent_where_somebody_waits(void **state)
{
    char sql[60];
    pthread_t thread;
    PGnotify *note;
    (void)state;
    ms_store *reader = open_url(url_of("one", ""));
    PGconn *ear = PQconnectdb(url_of("one", ""));
    snprintf(sql, sizeof sql, "listen msgstore_%u", ms_pg_bucket(MS_STR("job")));
    PQclear(PQexec(ear, sql));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(append_x(one, "elsewhere"), MS_OK);
        nap(20);
    }
    pthread_create(&thread, NULL, wait_for_job, reader);
    nap(1000);
    assert_int_equal(append_x(one, "elsewhere"), MS_OK);
    nap(200);
    assert_int_equal(PQconsumeInput(ear), 1);
    assert_null(PQnotifies(ear));
    assert_int_equal(append_x(one, "job"), MS_OK);
    pthread_join(thread, NULL);
    nap(200);
    assert_int_equal(PQconsumeInput(ear), 1);
    note = PQnotifies(ear);
    assert_non_null(note);
    PQfreemem(note);
    for (int i = 0; i < 3; i++) { /* nobody waits any more */
        nap(20);
        assert_int_equal(append_x(one, "job"), MS_OK);
    }
    nap(200);
    assert_int_equal(PQconsumeInput(ear), 1);
    assert_null(PQnotifies(ear));
    PQfinish(ear);
    ms_close(reader);
}

/* A client that appends many messages at once is ahead of the clock: messages that others
 * append afterwards have smaller numbers. Returns the number of its last one. */
static uint64_t run_ahead(void)
{
    ms_store *other = open_url(url_of("one", ""));
    append_many(other, MS_STR("import"));
    append_many(other, MS_STR("import"));
    uint64_t last = stat_of(other).last_seq;
    ms_close(other);
    return last;
}

static void a_waiter_wakes_when_a_message_has_a_smaller_number(void **state)
{
    ms_store *reader = open_url(url_of("one", ""));
    pthread_t thread;
    uint64_t seq = 0, ahead = run_ahead();
    (void)state;
    int64_t start = ms__pg_now();
    pthread_create(&thread, NULL, append_later, one);
    assert_int_equal(ms_wait(reader, ahead, 20000, &seq, NULL), MS_OK);
    assert_in_range((uint64_t)(ms__pg_now() - start), 250, 10000);
    assert_int_equal(seq, ahead);
    pthread_join(thread, NULL);
    ms_close(reader);
}

static void a_history_ends_where_its_reading_began_when_others_are_ahead(void **state)
{
    ms_store *reader = open_url(url_of("one", ""));
    ms_memory memory;
    ms_cursor it;
    size_t n = 1;
    (void)state;
    append_many(one, MS_STR("job"));
    (void)run_ahead();
    ms_memory_init(&memory, reader, MS_STR("job"), MS_STR("w"));
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    assert_int_equal(append_x(one, "job"), MS_OK);
    while (ms_next(&it) != NULL) n++;
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    assert_int_equal(n, MANY);
    ms_close(reader);
}

/* Numbers follow those that the handle has seen, by whatever call. */
static void an_append_has_a_larger_number_when_its_client_has_seen_one(void **state)
{
    ms_arena arena;
    (void)state;
    test_arena_init(&arena, NULL);
    for (int list = 0; list < 2; list++) {
        ms_store *reader = open_url(url_of("one", ""));
        ms_envelope m = ms_user_message(ms_text("x"));
        uint64_t seq, ahead = run_ahead();
        const ms_msg *msg;
        ms_listing listing;
        ms_result code = list ? ms_list(reader, NULL, &arena, &listing, NULL)
                              : ms_get_by_seq(reader, ahead, &arena, &msg, NULL);
        assert_int_equal(code, MS_OK);
        assert_int_equal(ms_append(reader, MS_STR("job"), &m, &seq, NULL), MS_OK);
        assert_true(seq > ahead);
        ms_close(reader);
    }
    ms_arena_deinit(&arena);
}

/* A message with these names is stored once, and found by them. */
static void must_keep_names(ms_str location, ms_str agent, ms_str key)
{
    ms_envelope m = ms_observation(ms_text("x"), key);
    uint64_t seqs[2];
    ms_cursor it;
    ms_error err;
    m.agent_key = m.turn_id = agent;
    m.key = key;
    for (int i = 0; i < 2; i++)
        must_ok(ms_append(one, location, &m, &seqs[i], &err), &err, "append");
    assert_int_equal(seqs[0], seqs[1]);
    must_ok(ms_get_agent_messages(one, location, agent, 0, &it, &err), &err, "query");
    assert_non_null(query_next(&it));
    assert_null(query_next(&it));
}

static void names_are_data_when_they_look_like_sql(void **state)
{
    static const char *const names[] = {"'; drop table msgstore_record; --", "$1", "a''b",
                                        "\"x\"", "\\", "%_", "{a,b}", "NULL", "\xc3\xa9"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_str name = ms_str_of(names[i]);
        must_keep_names(name, name, name);
    }
}

/* Text that no compression makes smaller. */
static ms_str long_name(uint64_t *rng, char out[MS_KEY_MAX])
{
    for (size_t i = 0; i < MS_KEY_MAX; i++) out[i] = (char)('!' + test_below(rng, 90));
    return ms_str_n(out, MS_KEY_MAX);
}

static void names_are_kept_when_they_are_as_long_as_allowed(void **state)
{
    char names[3][MS_KEY_MAX];
    uint64_t rng = test_seed();
    (void)state;
    must_keep_names(long_name(&rng, names[0]), long_name(&rng, names[1]),
                    long_name(&rng, names[2]));
}

/* The privileges that backends/README.md lists suffice; fewer are a clear code. */
static void a_client_needs_no_more_than_the_listed_privileges(void **state)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    uint64_t seq = 0;
    (void)state;
    ask_sql("one", "create role writer login; create role reader login;"
                   " grant usage on schema public to writer, reader;"
                   " grant select on msgstore_schema, msgstore_bucket, msgstore_record,"
                   " msgstore_location to writer, reader; grant insert on"
                   " msgstore_record, msgstore_location to writer; grant update on"
                   " msgstore_bucket, msgstore_record, msgstore_location to writer");
    ms_store *store = open_url(url_as("writer", ""));
    assert_int_equal(ms_append(store, MS_STR("job"), &m, &seq, &err), MS_OK);
    assert_int_equal(ms_amend(store, seq, &m, &err), MS_OK);
    assert_int_equal(ms_hide(store, seq, &err), MS_OK);
    ms_close(store);
    ms_pg_desc desc = desc_of(url_as("reader", ""));
    for (int read_only = 0; read_only < 2; read_only++) {
        desc.read_only = read_only != 0;
        store = open_desc(&desc);
        assert_int_equal(append_x(store, "job"), MS_E_READ_ONLY);
        (void)stat_of(store);
        ms_close(store);
    }
}

/* A message with a change of each kind. */
static ms_store *changed_source(void)
{
    ms_store *from;
    ms_error err;
    uint64_t seq = 0, other = 0;
    ms_envelope m = ms_user_message(ms_text("x"));
    must_ok(ms_mem_open(&from, NULL, &err), &err, "open");
    assert_int_equal(ms_append(from, MS_STR("job"), &m, &seq, &err), MS_OK);
    assert_int_equal(ms_append(from, MS_STR("job"), &m, &other, &err), MS_OK);
    m = ms_user_message(ms_text("amended"));
    assert_int_equal(ms_amend(from, seq, &m, &err), MS_OK);
    assert_int_equal(ms_note(from, seq, MS_STR("k"), ms_text("noted"), &err), MS_OK);
    assert_int_equal(ms_location_set(from, MS_STR("job"), MS_STR("{\"a\":1}"), &err),
                     MS_OK);
    assert_int_equal(ms_hide(from, other, &err), MS_OK);
    return from;
}

/* Ships all of the source, as the tool does; returns how many changes. */
static size_t ship_all(ms_store *store, ms_store *from)
{
    ms_cursor it, about;
    ms_error err;
    const ms_msg *msg, *message;
    ms_query q;
    size_t n_changes = 0;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(from, &q, &it, &err), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        ms_result code;
        if (ms_kind_of(msg) == MS_KIND_MESSAGE) {
            code = ms_pg_ship(store, MS_STR("source"), NULL, &m, 1, &retired, &err);
        } else {
            q.raw = MS_RAW_MESSAGES;
            q.after_seq = m.seq - (m.seq > 0);
            assert_int_equal(ms_query_open(from, &q, &about, &err), MS_OK);
            message = m.seq ? ms_next(&about) : NULL;
            code = ms_pg_ship_change(store, MS_STR("source"), NULL, msg, message,
                                     &retired, &err);
            ms_cursor_close(&about, NULL);
            n_changes++;
        }
        if (code != MS_OK)
            fail_msg("kind %d: %s", (int)ms_kind_of(msg), err.message);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return n_changes;
}

static void what_was_shipped_is_left_out_when_it_is_shipped_again(void **state)
{
    ms_pg_desc desc = desc_of(url_of("one", ""));
    ms_store *from = changed_source();
    (void)state;
    desc.timeout_ms = 3000;
    ms_store *store = open_desc(&desc);
    for (int twice = 0; twice < 2; twice++) {
        size_t shipped = ship_all(store, from);
        ms_stat stat = stat_of(store);
        assert_int_equal(stat.messages, 1);
        assert_int_equal(stat.hidden, 1);
        assert_int_equal(stat.changes, shipped);
    }
    ms_close(store);
    ms_close(from);
}

/* A source keeps its numbers: another message under one of them is refused, not left out.
 * Changes reach only rows of their own source. */
static void another_message_is_refused_when_its_number_was_shipped(void **state)
{
    ms_store *from, *store = open_url(url_of("one", ""));
    ms_error err;
    ms_cursor it;
    uint64_t seq;
    ms_envelope m = ms_user_message(ms_text("shipped"));
    (void)state;
    m.location = MS_STR("job");
    m.seq = 1;
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err), MS_OK);
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err), MS_OK);
    m.content = ms_text("another");
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err),
                     MS_E_CONFLICT);
    assert_int_equal(ms_pg_ship(store, MS_STR("b"), NULL, &m, 1, &retired, &err), MS_OK);
    m.seq = 2;
    m.key = MS_STR("a key");
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err), MS_OK);
    assert_int_equal(ms_pg_ship(store, MS_STR("b"), NULL, &m, 1, &retired, &err), MS_OK);
    m.content = ms_text("the third");
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err),
                     MS_E_CONFLICT);
    assert_int_equal(ms_pg_ship(store, MS_STR("b"), NULL, &m, 1, &retired, &err),
                     MS_E_KEY_REUSED);
    m.content = ms_text("[redact"); /* as "another" is, once it is erased */
    assert_int_equal(ms_pg_ship(store, MS_STR("a"), NULL, &m, 1, &retired, &err), MS_OK);
    assert_int_equal(ms_pg_ship(store, MS_STR("b"), NULL, &m, 1, &retired, &err),
                     MS_E_KEY_REUSED);
    m.content = ms_text("the third");
    /* "b" has a message with that key, too: with other content, then with the same */
    must_ok(ms_mem_open(&from, NULL, &err), &err, "open");
    m.seq = 0;
    must_ok(ms_append(from, MS_STR("job"), &m, &seq, &err), &err, "append");
    ms_query q = query_of(no_str(), 0);
    must_ok(ms_query_open(from, &q, &it, &err), &err, "query");
    const ms_msg *message = ms_next(&it);
    assert_int_equal(ms_pg_ship_look(store, MS_STR("a"), message, &err), MS_E_CONFLICT);
    assert_int_equal(ms_pg_ship_look(store, MS_STR("b"), message, &err),
                     MS_E_KEY_REUSED);
    assert_int_equal(ms_pg_ship_change(store, MS_STR("b"), NULL, message, message, &retired,
                                       &err),
                     MS_E_KEY_REUSED);
    ms_cursor_close(&it, NULL);
    ms_close(from);
    must_ok(ms_mem_open(&from, NULL, &err), &err, "open");
    m.content = ms_text("another");
    must_ok(ms_append(from, MS_STR("job"), &m, &seq, &err), &err, "append");
    must_ok(ms_query_open(from, &q, &it, &err), &err, "query");
    message = ms_next(&it);
    assert_int_equal(ms_pg_ship_change(store, MS_STR("b"), NULL, message, message, &retired,
                                       &err),
                     MS_E_KEY_REUSED);
    assert_int_equal(ms_pg_ship_change(store, MS_STR("a"), NULL, message, message, &retired,
                                       &err),
                     MS_OK);
    assert_int_equal(stat_of(store).messages, 3);
    assert_int_equal(stat_of(store).changes, 0); /* it is shown as it is */
    ms_cursor_close(&it, NULL);
    ms_close(from);
    ms_close(store);
}

static void a_position_moves_only_from_where_it_is(void **state)
{
    ms_store *store = open_url(url_of("one", ""));
    ms_error err;
    ms_pg_position zero, a = {7, 1, 3, 2, 5, "file"},
                         b = {9, 0, 4, 2, 5, "file"}, now;
    (void)state;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(ms_pg_ship_end(store, MS_STR("x"), &b, &a, &err), MS_E_CONFLICT);
    assert_int_equal(ms_pg_ship_end(store, MS_STR("x"), &zero, &a, &err), MS_OK);
    assert_int_equal(ms_pg_ship_end(store, MS_STR("x"), &zero, &b, &err), MS_E_CONFLICT);
    must_ok(ms_pg_ship_begin(store, MS_STR("x"), &now, &err), &err, "begin");
    assert_memory_equal(&now, &a, sizeof a);
    assert_int_equal(ms_pg_ship_end(store, MS_STR("x"), &a, &b, &err), MS_OK);
    must_ok(ms_pg_ship_begin(store, MS_STR("x"), &now, &err), &err, "begin");
    assert_memory_equal(&now, &b, sizeof b);
    /* records are stored after the position that the server has, not after another one */
    ms_envelope m = ms_user_message(ms_text("after"));
    uint64_t before = stat_of(store).messages;
    m.location = MS_STR("job");
    m.seq = 10;
    assert_int_equal(ms_pg_ship(store, MS_STR("x"), &a, &m, 1, &retired, &err),
                     MS_E_CONFLICT);
    assert_int_equal(ms_pg_ship(store, MS_STR("y"), &a, &m, 1, &retired, &err),
                     MS_E_CONFLICT);
    assert_int_equal(stat_of(store).messages, before);
    assert_int_equal(ms_pg_ship(store, MS_STR("x"), &b, &m, 1, &retired, &err), MS_OK);
    assert_int_equal(ms_pg_ship(store, MS_STR("y"), &zero, &m, 1, &retired, &err), MS_OK);
    assert_int_equal(stat_of(store).messages, before + 2);
    ms_close(store);
}

static void fill_with_7(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    memset(bytes, 7, n);
}

/* Two handles with one random part, as after a copy of a machine's memory. */
static void appends_are_stored_when_another_client_makes_the_same_keys(void **state)
{
    ms_pg_desc desc = desc_of(url_of("one", ""));
    ms_store *store[2];
    ms_error err;
    ms_envelope m[2];
    ms_append_opts opts;
    uint64_t seqs[2], before = stat_of(one).messages, facts = stat_of(one).changes;
    (void)state;
    desc.entropy.fill = fill_with_7;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("clones");
    opts.seqs = seqs;
    for (int i = 0; i < 2; i++) store[i] = open_desc(&desc);
    for (int i = 0; i < 2; i++) {
        uint64_t last = 0;
        m[0] = m[1] = ms_user_message(ms_text("the same text"));
        for (int k = 0; k < 3; k++) {
            must_ok(ms_append(store[i], MS_STR("clones"), m, &seqs[0], &err), &err, "one");
            assert_true(seqs[0] > last);
            last = seqs[0];
        }
        must_ok(ms_append_batch(store[i], m, 2, &opts, &err), &err, "batch");
        must_ok(ms_location_set(store[i], MS_STR("clones"), MS_STR("{\"a\":1}"), &err), &err,
                "facts");
    }
    assert_int_equal(stat_of(one).messages - before, 10);
    assert_int_equal(stat_of(one).changes - facts, 2);
    for (int i = 0; i < 2; i++) ms_close(store[i]);
}

/* A number that leaves no room for later ones is refused, and others append on. */
static void a_kept_number_is_refused_when_it_is_above_2_to_the_52(void **state)
{
    static const uint64_t numbers[] = {(uint64_t)INT64_MAX - 1, ((uint64_t)1 << 52) + 1};
    ms_store *store = open_url(url_of("one", ""));
    ms_append_opts opts;
    ms_error err;
    (void)state;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("kept");
    opts.keep_seq = true;
    for (size_t i = 0; i < 2; i++) {
        ms_envelope m = ms_user_message(ms_text("kept"));
        m.seq = numbers[i];
        assert_int_equal(ms_append_batch(store, &m, 1, &opts, &err), MS_E_ARGUMENT);
    }
    assert_int_equal(append_x(store, "kept"), MS_OK);
    ms_close(store);
}

/* A copy leaves out a message with such a number, which would end the numbers of all. */
static void a_copy_is_refused_when_a_number_is_above_2_to_the_52(void **state)
{
    ms_store *from;
    ms_mem_desc desc;
    ms_append_opts opts;
    ms_keep keep;
    ms_error err;
    const ms_str kept = MS_STR("kept");
    ms_envelope m[2] = {ms_user_message(ms_text("x")), ms_user_message(ms_text("x"))};
    (void)state;
    memset(&desc, 0, sizeof desc);
    memset(&opts, 0, sizeof opts);
    memset(&keep, 0, sizeof keep);
    must_ok(ms_mem_open(&from, &desc, &err), &err, "open");
    opts.keep_seq = true;
    m[0].location = kept;
    m[0].seq = 5;
    m[1].location = MS_STR("left out");
    m[1].seq = (uint64_t)INT64_MAX - 1;
    must_ok(ms_append_batch(from, m, 2, &opts, &err), &err, "append");
    keep.locations = &kept;
    keep.n_locations = 1;
    assert_int_equal(ms_copy(one, from, &keep, NULL, NULL, &err), MS_E_ARGUMENT);
    assert_int_equal(append_x(one, "other"), MS_OK);
    assert_in_range(stat_of(one).last_seq, 1, (uint64_t)1 << 53);
    ms_close(from);
}

/* Tables as version 2 made them. A client of that version that goes on is refused, in the
 * words of PostgreSQL: its append names a column that is gone. */
static void tables_of_version_2_are_migrated(void **state)
{
    ms_error err;
    ms_store *store = open_url(url_of("one", ""));
    ms_pg_desc desc = desc_of(url_of("one", ""));
    (void)state;
    append_of_each_kind(store);
    ms_close(store);
    ask_sql("one", "drop table msgstore_location; alter table msgstore_bucket drop column"
                   " newest; alter table msgstore_bucket rename column stored to"
                   " messages; drop index msgstore_facts; alter table msgstore_record"
                   " drop column facts; delete from msgstore_schema where version > 2");
    desc.no_create = true;
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_FOREIGN);
    assert_non_null(strstr(err.message, "version 2, this program needs 4"));
    PGconn *old = PQconnectdb(url_of("one", ""));
    PQclear(PQexec(old, "prepare a as update msgstore_bucket set messages = messages + 1"
                        " where bucket = 1"));
    void *stores[CLIENTS];
    each_client(open_and_append, (void *)(uintptr_t)url_of("one", ""), stores);
    for (int i = 0; i < CLIENTS; i++) assert_null(stores[i]);
    PGresult *r = PQexec(old, "execute a");
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "42703");
    PQclear(r);
    PQfinish(old);
    assert_int_equal(ask_sql("one", PG_WRONG_LOCATIONS), 0);
    assert_int_equal(ask_sql("one", PG_WRONG_BUCKETS), 0);
}

/* Tables of msgstore 0.2.0 have records that this version cannot read. They stay as they
 * are, so that 0.2.0 still reads them. */
static void tables_of_version_1_are_refused(void **state)
{
    ms_store *store = open_url(url_of("one", ""));
    const ms_pg_desc desc = desc_of(url_of("one", ""));
    ms_error err;
    (void)state;
    ms_close(store);
    ask_sql("one", "delete from msgstore_schema; insert into msgstore_schema values (1)");
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_FOREIGN);
    assert_non_null(strstr(err.message,
                           "the tables have version 1, of msgstore 0.2.0: use msgstore"
                           " export of that version, then msgstore import of this one"
                           " into another database"));
    assert_int_equal(ask_sql("one", "select max(version) from msgstore_schema"), 1);
    ask_sql("one", "insert into msgstore_schema values (2), (3), (4)");
    ms_close(open_url(url_of("one", "")));
}

static void *open_raced(void *ctx)
{
    const ms_pg_desc desc = desc_of(url_of("one", "options=-csearch_path=raced"));
    ms_store *store = NULL;
    if (ms_pg_open(&store, &desc, ctx) == MS_OK) ms_close(store);
    return NULL;
}

/* 0.2.0 makes its tables between the look of a client that finds none and its lock. */
static void tables_of_version_1_are_refused_when_they_come_meanwhile(void **state)
{
    pthread_t thread;
    ms_error err = {0};
    PGconn *old = PQconnectdb(url_of("one", ""));
    (void)state;
    ask_sql("one", "create schema raced");
    PQclear(PQexec(old, "begin; select pg_advisory_xact_lock(6217836124188)"));
    pthread_create(&thread, NULL, open_raced, &err);
    while (ask_sql("one", "select count(*) from pg_locks where locktype = 'advisory' and"
                          " not granted") == 0) {
        ms__pg_nap(10);
    }
    PQclear(PQexec(old, "create table raced.msgstore_schema (version int primary key);"
                        " insert into raced.msgstore_schema values (1); commit"));
    pthread_join(thread, NULL);
    assert_int_equal(err.code, MS_E_FOREIGN);
    assert_non_null(strstr(err.message, "the tables have version 1, of msgstore 0.2.0"));
    assert_int_equal(ask_sql("one", "select max(version) from raced.msgstore_schema"), 1);
    assert_int_equal(ask_sql("one", "select count(*) from pg_tables where schemaname ="
                                    " 'raced'"), 1);
    PQfinish(old);
    ask_sql("one", "drop schema raced cascade");
}

/* The parts of a store that other hosts rely on. */
static void locations_have_the_same_buckets_on_every_host(void **state)
{
    (void)state;
    assert_int_equal(ms_pg_bucket(MS_STR("")), 115);
    assert_int_equal(ms_pg_bucket(MS_STR("job_1")), 15);
    assert_int_equal(ms_pg_bucket(MS_STR("location 77")), 285);
    assert_int_equal(ms_pg_bucket(MS_STR("\xe6\x97\xa5")), 870);
}

/* Opening fails with that code, and long before its time is over. */
static void must_fail_soon(const char *url, ms_result code)
{
    const ms_pg_desc desc = desc_of(url);
    ms_store *store;
    ms_error err;
    int64_t start = ms__pg_now();
    ms_result got = ms_pg_open(&store, &desc, &err);
    if (got != code) fail_msg("%s: %d, not %d: %s", url, got, code, err.message);
    assert_in_range((uint64_t)(ms__pg_now() - start), 0, 8000);
}

static void opening_fails_at_once_when_waiting_does_not_help(void **state)
{
    (void)state;
    ask_sql("one", "create role guarded login password 'right'");
    must_fail_soon("postgresql://%/x", MS_E_ARGUMENT);
    must_fail_soon("host=/tmp colour=red", MS_E_ARGUMENT);
    must_fail_soon(url_as("test", "dbname=absent"), MS_E_NOT_FOUND);
    must_fail_soon(url_as("guarded", "password=wrong"), MS_E_UNREACHABLE);
    must_fail_soon(url_as("guarded", ""), MS_E_UNREACHABLE);
    must_fail_soon(url_of("one", "options=-cabsent=1"), MS_E_UNREACHABLE);
    must_fail_soon(url_of("one", "options=-cwork_mem=x"), MS_E_UNREACHABLE);
    ask_sql("one", "insert into msgstore_schema values (5)");
    must_fail_soon(url_of("one", ""), MS_E_FOREIGN);
    ask_sql("one", "delete from msgstore_schema where version = 5");
}

/* At each login of this user the server warns of a setting that it does not know. With a
 * silent host before it, the hosts are tried one after another, for 3 s each. */
static void warnings_of_a_login_are_not_printed(void **state)
{
    char path[300], url[700];
    off_t size[3];
    struct sockaddr_un at = {AF_UNIX, ""};
    int silent = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)state;
    ask_sql("one", "set client_min_messages = error; create user warned superuser;"
                   " alter user warned set default_text_search_config = 'absent'");
    snprintf(path, sizeof path, "%s/silent", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%.90s/.s.PGSQL.5432", path);
    assert_int_equal(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(silent, 8), 0);
    snprintf(url, sizeof url, "host=%s,%s/one dbname=postgres user=warned", path, folder);
    snprintf(path, sizeof path, "%s/printed", folder);
    int printed = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), before = dup(2);
    assert_int_equal(dup2(printed, 2), 2);
    PQfinish(PQconnectdb(url_as("warned", ""))); /* prints it */
    size[0] = lseek(printed, 0, SEEK_END);
    ms_close(open_url(url_as("warned", "")));
    size[1] = lseek(printed, 0, SEEK_END);
    ms_pg_desc desc = desc_of(url);
    desc.timeout_ms = 9000;
    int64_t start = ms__pg_now();
    ms_close(open_desc(&desc));
    size[2] = lseek(printed, 0, SEEK_END);
    assert_int_equal(dup2(before, 2), 2);
    close(before);
    close(printed);
    close(silent);
    assert_true(ms__pg_now() - start >= 3000);
    assert_true(size[0] > 0);
    assert_int_equal(size[1], size[0]);
    assert_int_equal(size[2], size[0]);
    ask_sql("one", "drop user warned");
}

static void a_client_waits_for_its_turn_when_connections_are_few(void **state)
{
    ms_store *other;
    ms_error err;
    (void)state;
    ask_sql("one", "create role few login connection limit 1; grant select on"
                   " msgstore_schema, msgstore_bucket to few");
    ms_store *store = open_url(url_as("few", ""));
    ms_pg_desc desc = desc_of(url_as("few", ""));
    desc.timeout_ms = 300;
    assert_int_equal(ms_pg_open(&other, &desc, &err), MS_E_UNREACHABLE);
    assert_non_null(strstr(err.message, "too many connections"));
    ms_close(store);
    desc.timeout_ms = 30000; /* the server notices after a while that the first is gone */
    ms_close(open_desc(&desc));
}


/* ---- a follower ---- */

typedef struct follower {
    pthread_t thread;
    ms_store *store;
    size_t seen;
} follower;

/* Reads what is new, again and again, until it has seen all messages of the clients. */
static void *follow(void *arg)
{
    follower *f = (follower *)arg;
    uint64_t after = 0;
    int64_t end = ms__pg_now() + 60000;
    while (f->seen < CLIENTS * APPENDS && ms__pg_now() < end) {
        ms_cursor it;
        ms_query q = query_of(MS_STR("followed"), 0);
        q.after_seq = after;
        EACH (msg, f->store, &q, &it) {
            after = ms_seq(msg);
            f->seen++;
        }
    }
    return NULL;
}

static void *append_followed(void *arg)
{
    ms_store *store = open_url((const char *)arg);
    for (int i = 0; i < APPENDS && append_x(store, "followed") == MS_OK; i++) continue;
    ms_close(store);
    return NULL;
}

static void a_follower_misses_nothing_when_eight_clients_append(void **state)
{
    void *none[CLIENTS];
    follower f = {.store = one};
    (void)state;
    pthread_create(&f.thread, NULL, follow, &f);
    each_client(append_followed, (void *)(uintptr_t)url_of("one", ""), none);
    pthread_join(f.thread, NULL);
    assert_int_equal(f.seen, CLIENTS * APPENDS);
}

#include "retire.h"
#include "roles.h"
#include "replica.h"
#include "facts.h"
#include "setups.h"

static long long sessions(void)
{
    return ask_sql("one", "select count(*) from pg_stat_activity where application_name ="
                          " 'idler'");
}

/* Waits until there are at most so many; a server's process needs a moment to end. */
static long long sessions_soon(long long most)
{
    int64_t end = ms__pg_now() + 10000;
    while (sessions() > most && ms__pg_now() < end) nap(20);
    return sessions();
}

static void *append_idler(void *arg)
{
    ms_store *store = (ms_store *)arg;
    for (int i = 0; i < 50; i++) (void)append_x(store, "idle");
    return NULL;
}

typedef struct idle_wait {
    pthread_t thread;
    ms_store *store;
    ms_result result;
    uint64_t place;
    ms_error err;
} idle_wait;

static void *wait_idler(void *arg)
{
    idle_wait *w = (idle_wait *)arg;
    w->result = ms_pg_wait(w->store, MS_STR("quiet"), &w->place, 20000, &w->err);
    return NULL;
}

/* Connections that were not used for idle_ms are closed by the next call, which goes on
 * with one, as do later ones; a waiter's is in use. */
static void idle_connections_are_closed(void **state)
{
    void *none[CLIENTS];
    ms_error err;
    ms_pg_desc desc = desc_of(url_of("one", "application_name=idler"));
    idle_wait w;
    (void)state;
    desc.idle_ms = 800;
    ms_store *store = open_desc(&desc);
    each_client(append_idler, store, none);
    long long many = sessions();
    assert_in_range(many, 2, CLIENTS);
    assert_in_range(counts_of(store).connections, 2, CLIENTS);
    memset(&w, 0, sizeof w);
    w.store = store;
    assert_int_equal(pthread_create(&w.thread, NULL, wait_idler, &w), 0);
    nap(2000);
    assert_int_equal(append_x(store, "idle"), MS_OK);
    assert_in_range(sessions_soon(3), 2, 3); /* of the waiter two at most, of the append one */
    assert_true(counts_of(store).idle_closed + 2 >= (uint64_t)many);
    assert_int_equal(append_x(store, "quiet"), MS_OK);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.result, MS_OK);
    assert_int_not_equal(w.place, 0);
    nap(1700);
    assert_int_equal(append_x(store, "idle"), MS_OK); /* on a new connection */
    assert_int_equal(sessions_soon(1), 1);
    assert_int_equal(counts_of(store).repeats, 0);
    must_ok(ms_pg_close_idle(store, 0, &err), &err, "close");
    assert_int_equal(sessions_soon(0), 0);
    assert_int_equal(append_x(store, "idle"), MS_OK);
    ms_close(store);
    desc.idle_ms = 0;
    store = open_desc(&desc);
    nap(600);
    assert_int_equal(append_x(store, "idle"), MS_OK);
    assert_int_equal(counts_of(store).idle_closed, 0);
    ms_close(store);
}

static int one_server(void **state)
{
    (void)state;
    return server_do("make", "one", "fsync=off autovacuum=off");
}

static int no_server(void **state)
{
    (void)state;
    return server_do("stop", "one", "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ON_ONE(a_call_returns_in_its_time_when_no_server_is_there),
        ON_ONE(an_append_is_busy_when_a_statement_takes_too_long),
        ON_ONE(an_append_is_in_doubt_when_its_repetition_is_busy),
        ON_ONE(a_batch_costs_little_more_when_its_messages_have_keys),
        ON_ONE(a_batch_stores_a_message_once_when_its_key_is_there_twice),
        ON_ONE(a_cursor_goes_on_when_its_connection_is_cut),
        ON_ONE(a_parent_reads_on_when_its_child_uses_the_cursor),
        ON_ONE(appends_are_repeated_when_transactions_are_serializable),
        ON_ONE(one_append_wins_when_all_expect_the_same),
        ON_ONE(a_waiter_wakes_when_another_client_appends),
        ON_ONE(a_waiter_wakes_when_a_message_has_a_smaller_number),
        ON_ONE(a_history_ends_where_its_reading_began_when_others_are_ahead),
        ON_ONE(an_append_has_a_larger_number_when_its_client_has_seen_one),
        ON_ONE(names_are_data_when_they_look_like_sql),
        ON_ONE(what_was_shipped_is_left_out_when_it_is_shipped_again),
        ON_ONE(appends_go_on_when_a_client_is_frozen_amid_a_transaction),
        ON_ONE(no_call_fails_when_connections_are_dropped_silently),
        ON_ONE(queries_of_a_location_use_its_indexes),
        ON_ONE(an_idle_waiter_asks_seldom),
        ON_ONE(another_message_is_refused_when_its_number_was_shipped),
        ON_ONE(a_position_moves_only_from_where_it_is),
        ON_ONE(appends_are_stored_when_another_client_makes_the_same_keys),
        ON_ONE(a_kept_number_is_refused_when_it_is_above_2_to_the_52),
        ON_ONE(a_copy_is_refused_when_a_number_is_above_2_to_the_52),
        ON_ONE(tables_of_version_1_are_refused),
        ON_ONE(tables_of_version_1_are_refused_when_they_come_meanwhile),
        ON_ONE(tables_of_version_2_are_migrated),
        ON_ONE(tables_of_version_3_are_migrated),
        ON_ONE(facts_are_read_from_the_newest_row_that_has_all),
        ON_ONE(facts_are_those_of_an_arena_store_after_random_steps),
        ON_ONE(facts_are_whole_when_eight_clients_set_them),
        ON_ONE(shipped_facts_are_read_from_the_newest_row_that_has_all),
        ON_ONE(damage_among_facts_is_not_taken_for_the_facts),
        ON_ONE(a_listing_is_by_the_table_of_locations),
        ON_ONE(old_messages_go_with_their_changes),
        ON_ONE(retiring_stops_at_its_limit),
        ON_ONE(retiring_goes_on_after_a_kill),
        ON_ONE(retiring_waits_for_a_shipper_under_way),
        ON_ONE(what_was_retired_is_not_shipped_again),
        ON_ONE(a_tenant_has_its_prefix_alone),
        ON_ONE(a_role_without_a_policy_is_refused),
        ON_ONE(what_is_found_again_is_on_the_standby),
        ON_ONE(one_server_of_two_is_refused),
        ON_ONE(tables_are_migrated_whole_when_transactions_are_serializable),
        ON_ONE(a_prefix_is_found_when_the_encoding_has_another_order),
        ON_ONE(what_was_synced_is_there_when_commits_are_asynchronous),
        ON_ONE(idle_connections_are_closed),
        ON_ONE(a_waiter_of_a_location_wakes_for_it_alone),
        ON_ONE(a_notification_is_sent_where_somebody_waits),
        ON_ONE(an_append_names_the_lock_that_it_did_not_get),
        ON_ONE(names_are_kept_when_they_are_as_long_as_allowed),
        cmocka_unit_test(locations_have_the_same_buckets_on_every_host),
        ON_ONE(a_client_needs_no_more_than_the_listed_privileges),
        ON_ONE(opening_fails_at_once_when_waiting_does_not_help),
        ON_ONE(warnings_of_a_login_are_not_printed),
        ON_ONE(a_client_waits_for_its_turn_when_connections_are_few),
        ON_ONE(a_follower_misses_nothing_when_eight_clients_append),
    };
    const struct CMUnitTest servers[] = {
        cmocka_unit_test(operations_happen_once_when_connections_are_cut),
        cmocka_unit_test(appends_are_stored_once_when_the_server_is_killed),
        cmocka_unit_test(clients_go_on_when_a_replica_is_promoted),
        cmocka_unit_test(nothing_acknowledged_is_lost_when_the_disk_is_full),
        cmocka_unit_test(a_reader_has_its_own_writes),
        cmocka_unit_test(readers_leave_the_primary_alone),
        cmocka_unit_test(readers_go_on_when_a_replica_is_killed),
        cmocka_unit_test(what_is_read_never_goes_back),
        cmocka_unit_test(a_reader_ends_in_time_when_servers_are_silent),
        cmocka_unit_test(a_replica_that_has_crashed_is_compared_again),
        cmocka_unit_test(a_promoted_replica_is_not_read),
        cmocka_unit_test(a_replica_of_another_timeline_is_not_read),
        cmocka_unit_test(readers_go_on_with_another_replica),
        cmocka_unit_test(a_mark_has_the_end_of_the_log),
    };
    if (argc != 3) return 2;
    folder = argv[1];
    rounds = atoi(argv[2]);
    int failed = cmocka_run_group_tests(tests, one_server, no_server);
    return failed + cmocka_run_group_tests(servers, NULL, no_pair);
}
