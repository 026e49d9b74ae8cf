/* The store through PgBouncer: processes share a pool of fewer sessions.
 *
 *   build/pg/pooled FOLDER      (tests/platform/pgbouncer.sh runs it)
 *
 * FOLDER has a server, pg, and two poolers before it with 4 sessions each: session and
 * transaction, which are the modes; a standby of it, standby, and poolers before that:
 * session_standby and transaction_standby. PG_SERVER names server.sh.
 */

#define _GNU_SOURCE
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "store_text.h"
#include "backends/msgstore_postgres.h"

#include <signal.h>
#include <sys/wait.h>

enum { PROCESSES = 8, SESSIONS = 4, ROUNDS = 12, CODES = 64, TIMEOUT_MS = 4000 };

static const char *folder;

static const char *url_of(const char *name)
{
    static char urls[16][300];
    static unsigned next;
    char *url = urls[next++ % 16];
    snprintf(url, sizeof urls[0], "host=%s/%s user=test dbname=postgres", folder, name);
    return url;
}

static ms_pg_desc desc_of(const char *name)
{
    ms_pg_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.url = url_of(name);
    desc.connections = 1;
    desc.partitions = 2;
    desc.timeout_ms = TIMEOUT_MS;
    return desc;
}

static ms_store *open_desc(const ms_pg_desc *desc)
{
    ms_store *store;
    ms_error err;
    must_ok(ms_pg_open(&store, desc, &err), &err, "open");
    return store;
}

static void nap(int ms)
{
    struct timespec t = {0, 0};
    t.tv_sec = ms / 1000;
    t.tv_nsec = (long)(ms % 1000) * 1000000;
    nanosleep(&t, NULL);
}

/* Appends, changes, reads and waits; then is idle for a while. */
static ms_result work(ms_store *store, int id, int round, ms_error *err)
{
    char text[32], place[32];
    ms_cursor it;
    ms_envelope m[3];
    ms_append_opts opts;
    uint64_t seqs[3], last = 0;
    size_t n = 0;
    snprintf(place, sizeof place, "place %d", id);
    snprintf(text, sizeof text, "%d:%d", id, round);
    memset(&opts, 0, sizeof opts);
    opts.location = ms_str_of(place);
    opts.seqs = seqs;
    for (int i = 0; i < 3; i++) m[i] = ms_user_message(ms_text(text));
    m[1].key = ms_str_of(text); /* a transaction */
    ms_result code = ms_append_batch(store, m, 3, &opts, err);
    m[0] = ms_user_message(ms_text("amended"));
    if (code == MS_OK) code = ms_amend(store, seqs[0], &m[0], err);
    if (code == MS_OK) code = ms_hide(store, seqs[2], err);
    if (code == MS_OK) code = ms_wait(store, seqs[2], 5, &last, err);
    ms_query q = query_of(ms_str_of(place), 0);
    if (code == MS_OK) code = ms_query_open(store, &q, &it, err);
    if (code != MS_OK) return code;
    while (ms_next(&it) != NULL) n++;
    code = ms_cursor_close(&it, err);
    if (code == MS_OK && n != 2 * ((size_t)round + 1))
        code = ms_error_set(err, MS_E_DAMAGED, "messages are missing");
    nap(30);
    return code;
}

/* The exit status of a process is the code of what failed. */
static int process(const ms_pg_desc *desc, int id)
{
    ms_store *store;
    ms_error err;
    ms_result code = ms_pg_open(&store, desc, &err);
    if (code != MS_OK) {
        fprintf(stderr, "process %d, open: %s\n", id, err.message);
        return (int)code;
    }
    for (int round = 0; round < ROUNDS && code == MS_OK; round++)
        code = work(store, id, round, &err);
    if (code != MS_OK) fprintf(stderr, "process %d: %s\n", id, err.message);
    else nap(TIMEOUT_MS + 1000); /* the store is open, and idle */
    ms_close(store);
    return (int)code;
}

static void forget(void)
{
    PGconn *conn = PQconnectdb(url_of("pg"));
    PQclear(PQexec(conn, "set client_min_messages = error"));
    PQclear(PQexec(conn, "drop schema public cascade; create schema public"));
    PQfinish(conn);
}

/* Runs the processes. codes[code]: how many of them ended so. */
static void run_processes(const ms_pg_desc *desc,
                          int (*run)(const ms_pg_desc *desc, int id), int codes[CODES])
{
    ms_pg_desc straight = desc_of("pg");
    forget();
    ms_close(open_desc(&straight));
    memset(codes, 0, CODES * sizeof codes[0]);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        if (child == 0) _exit(run(desc, i));
        assert_true(child > 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < CODES);
        codes[WEXITSTATUS(status)]++;
    }
}

/* What n whole processes have stored is there once. */
static void must_have(int n)
{
    ms_pg_desc straight = desc_of("pg");
    ms_store *store = open_desc(&straight);
    ms_stat stat = stat_of(store);
    assert_int_equal(stat.messages, n * ROUNDS * 2);
    assert_int_equal(stat.hidden, n * ROUNDS);
    assert_int_equal(stat.changes, n * ROUNDS * 2);
    ms_close(store);
}

static void an_open_store_keeps_its_session_in_session_mode(void **state)
{
    int codes[CODES];
    ms_pg_desc desc = desc_of("session");
    (void)state;
    run_processes(&desc, process, codes);
    assert_int_equal(codes[MS_OK], SESSIONS);
    assert_int_equal(codes[MS_E_UNREACHABLE], PROCESSES - SESSIONS);
    must_have(SESSIONS);
}

/* The store is idle but for a wait in which nothing comes. */
static int waiting_process(const ms_pg_desc *desc, int id)
{
    ms_store *store;
    ms_error err;
    uint64_t last = 0;
    (void)id;
    ms_result code = ms_pg_open(&store, desc, &err);
    if (code == MS_OK) code = ms_wait(store, 0, 1500, &last, &err);
    if (code != MS_OK) fprintf(stderr, "process, wait: %s\n", err.message);
    else ms_close(store);
    return (int)code;
}

/* Counts lines of a pooler's log that have a text. */
static int logged(const char *name, const char *text)
{
    char path[300], line[1000];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s/log", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

/* A client that leaves while a statement runs costs the pooler a session. */
static void stores_share_sessions_when_they_release_them(void **state)
{
    int codes[CODES];
    ms_pg_desc desc = desc_of("session");
    (void)state;
    desc.release = true;
    run_processes(&desc, process, codes);
    assert_int_equal(codes[MS_OK], PROCESSES);
    assert_int_equal(logged("session", "was not ready"), 0);
    must_have(PROCESSES);
}

/* A wait that is over before its listener is there costs no session. */
static void a_short_wait_leaves_between_statements(void **state)
{
    ms_pg_desc desc = desc_of("session");
    int before = logged("session", "was not ready");
    (void)state;
    forget();
    for (int i = 0; i < 20; i++) {
        ms_error err;
        ms_store *store = open_desc(&desc);
        must_ok(ms_wait(store, 0, 1, NULL, &err), &err, "wait");
        ms_close(store);
    }
    assert_int_equal(logged("session", "was not ready"), before);
}

/* More stores wait than there are sessions: none keeps one while it waits. */
static void stores_that_release_sessions_wait_without_one(void **state)
{
    ms_pg_desc desc = desc_of("session");
    int codes[CODES];
    (void)state;
    desc.release = true;
    run_processes(&desc, waiting_process, codes);
    assert_int_equal(codes[MS_OK], PROCESSES);
}

static void stores_share_sessions_in_transaction_mode_when_nothing_is_prepared(void **state)
{
    int codes[CODES];
    ms_pg_desc desc = desc_of("transaction");
    (void)state;
    desc.no_prepare = true;
    desc.no_notify = true;
    run_processes(&desc, process, codes);
    assert_int_equal(codes[MS_OK], PROCESSES);
    must_have(PROCESSES);
}

/* A statement that one client has prepared is there for another. */
static void prepared_statements_are_unsupported_in_transaction_mode(void **state)
{
    int codes[CODES];
    ms_pg_desc desc = desc_of("transaction");
    (void)state;
    run_processes(&desc, process, codes);
    assert_true(codes[MS_E_UNSUPPORTED] > 0);
    assert_int_equal(codes[MS_OK] + codes[MS_E_UNSUPPORTED] + codes[MS_E_UNREACHABLE],
                     PROCESSES);
}

static void a_schema_in_the_connection_string_is_refused(void **state)
{
    ms_pg_desc desc = desc_of("session");
    char url[400];
    ms_store *store;
    ms_error err;
    (void)state;
    snprintf(url, sizeof url, "%s options='-csearch_path=team'", desc.url);
    desc.url = url;
    desc.timeout_ms = 1000;
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_UNREACHABLE);
    assert_non_null(strstr(err.message, "options"));
}

static void *append_one(void *arg)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    return (void *)(uintptr_t)ms_append((ms_store *)arg, MS_STR("place"), &m, NULL, NULL);
}

/* Returns the process of the session that waits for a lock. */
static int locked_session(void)
{
    int pid = 0;
    PGconn *conn = PQconnectdb(url_of("pg"));
    while (pid == 0) {
        PGresult *r = PQexec(conn, "select pid from pg_stat_activity where"
                                   " wait_event_type = 'Lock'");
        if (PQntuples(r) > 0) pid = atoi(PQgetvalue(r, 0, 0));
        PQclear(r);
        nap(10);
    }
    PQfinish(conn);
    return pid;
}

/* The pooler loses the session of an append that is under way, and reports that in its
 * own words: the append may be stored. It is repeated, and stored once. */
static void an_append_goes_on_when_its_session_is_gone(void **state)
{
    static const char *const names[] = {"session", "transaction"};
    char sql[100];
    pthread_t thread;
    void *code;
    (void)state;
    for (int i = 0; i < 2; i++) {
        ms_pg_desc desc = desc_of(names[i]), straight = desc_of("pg");
        desc.timeout_ms = 20000;
        desc.no_prepare = desc.no_notify = i == 1;
        forget();
        ms_store *store = open_desc(&desc), *probe = open_desc(&straight);
        PGconn *lock = PQconnectdb(url_of("pg"));
        snprintf(sql, sizeof sql, "begin; select * from msgstore_bucket where bucket = %u"
                 " for update", ms_pg_bucket(MS_STR("place")));
        PQclear(PQexec(lock, sql));
        pthread_create(&thread, NULL, append_one, store);
        kill(locked_session(), SIGKILL); /* the server ends all sessions, and recovers */
        pthread_join(thread, &code);
        PQfinish(lock);
        assert_int_equal((uintptr_t)code, MS_OK);
        ms_stat stat;
        must_ok(ms_store_stat(probe, &stat, NULL), NULL, "stat");
        assert_int_equal(stat.messages, 1);
        ms_close(probe);
        ms_close(store);
    }
}

typedef struct waiting {
    ms_store *store;
    ms_result code;
    int64_t ms;
    uint64_t last;
} waiting;

static void *wait_for_one(void *arg)
{
    waiting *w = (waiting *)arg;
    int64_t start = ms__pg_now();
    w->code = ms_wait(w->store, w->last, 10000, &w->last, NULL);
    w->ms = ms__pg_now() - start;
    return NULL;
}

/* Waits through a pooler while another client appends 300 ms later. */
static waiting wait_through(ms_pg_desc desc)
{
    ms_pg_desc straight = desc_of("pg");
    pthread_t thread;
    waiting w;
    ms_envelope m = ms_user_message(ms_text("x"));
    forget();
    ms_store *store = open_desc(&straight);
    memset(&w, 0, sizeof w);
    desc.connections = 2;
    w.store = open_desc(&desc);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, &w), 0);
    nap(300);
    must_ok(ms_append(store, MS_STR("place"), &m, NULL, NULL), NULL, "append");
    pthread_join(thread, NULL);
    ms_close(w.store);
    ms_close(store);
    assert_int_equal(w.code, MS_OK);
    assert_true(w.last > 0);
    return w;
}

/* In session mode a notification wakes the waiter. In transaction mode none comes, and no
 * code tells it: the waiter looks by itself, at least once a second. */
static void a_waiter_wakes_through_a_pooler(void **state)
{
    ms_pg_desc desc = desc_of("transaction");
    (void)state;
    assert_in_range(wait_through(desc_of("session")).ms, 250, 3000);
    desc.no_prepare = true;
    assert_in_range(wait_through(desc).ms, 250, 4000);
    desc.no_notify = true;
    assert_in_range(wait_through(desc).ms, 250, 3000);
}

/* The number of the newest message. */
static uint64_t newest_of(ms_store *store)
{
    ms_query q = query_of(MS_STR("place"), 0);
    ms_cursor it;
    uint64_t seq = 0;
    q.limit = 1;
    EACH (msg, store, &q, &it) seq = ms_seq(msg);
    return seq;
}

static uint64_t append_to(ms_store *store)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    uint64_t seq = 0;
    ms_error err;
    must_ok(ms_append(store, MS_STR("place"), &m, &seq, &err), &err, "append");
    return seq;
}

static uint64_t replica_reads(ms_store *store)
{
    ms_pg_counts counts;
    must_ok(ms_pg_count(store, &counts, NULL), NULL, "count");
    return counts.replica_reads;
}

/* A standby is read through a pooler in both modes, and no longer once it is promoted. The
 * third store connects for each call: the pooler tells it what was so at first. */
static void a_standby_is_read_through_a_pooler(void **state)
{
    static const char *const names[2] = {"session_standby", "transaction_standby"};
    ms_pg_desc straight = desc_of("pg"), apart = desc_of("standby");
    ms_store *stores[3];
    PGconn *others[3];
    uint64_t seq = 0;
    char command[500];
    (void)state;
    forget();
    ms_store *one = open_desc(&straight);
    for (int i = 0; i < 3; i++) {
        ms_pg_desc desc = desc_of(i == 1 ? "transaction" : "session");
        desc.no_prepare = desc.no_notify = i == 1;
        desc.release = i == 2;
        desc.replica_url = url_of(names[i % 2]);
        desc.replica_lag_ms = 60000;
        stores[i] = open_desc(&desc);
        for (int n = 0; n < 50; n++) {
            seq = append_to(stores[i]);
            assert_int_equal(newest_of(stores[i]), seq);
        }
        int64_t end = ms__pg_now() + 10000;
        while (replica_reads(stores[i]) < 10 && ms__pg_now() < end) {
            assert_int_equal(newest_of(stores[i]), seq);
            nap(5);
        }
        assert_true(replica_reads(stores[i]) >= 10);
    }
    for (int i = 0; i < 3; i++) {
        must_ok(ms_pg_newest(stores[i], NULL), NULL, "newest");
        uint64_t reads = replica_reads(stores[i]);
        for (int n = 0; n < 500 && replica_reads(stores[i]) == reads; n++) {
            assert_int_equal(newest_of(stores[i]), seq);
            nap(5);
        }
        assert_int_not_equal(replica_reads(stores[i]), reads);
    }
    snprintf(command, sizeof command, "bash %s promote %s/standby", getenv("PG_SERVER"),
             folder);
    assert_int_equal(system(command), 0);
    /* a client that shares a session of the pool hears of it, the others do not */
    PGconn *third = PQconnectdb(url_of("transaction_standby"));
    for (int n = 0; n < 8; n++) PQclear(PQexec(third, "select 1"));
    for (int n = 0; n < 3; n++) others[n] = PQconnectdb(url_of("session_standby"));
    for (int n = 0; n < 3; n++) PQclear(PQexec(others[n], "select 1"));
    for (int n = 0; n < 3; n++) PQfinish(others[n]);
    ms_store *other = open_desc(&apart);
    for (int n = 0; n < 20; n++) {
        (void)append_to(other);
        for (int i = 0; i < 3; i++) assert_int_equal(newest_of(stores[i]), seq);
        nap(20);
    }
    PQfinish(third);
    ms_close(other);
    ms_close(one);
    for (int i = 0; i < 3; i++) ms_close(stores[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_store_keeps_its_session_in_session_mode),
        cmocka_unit_test(stores_share_sessions_when_they_release_them),
        cmocka_unit_test(a_short_wait_leaves_between_statements),
        cmocka_unit_test(stores_that_release_sessions_wait_without_one),
        cmocka_unit_test(
            stores_share_sessions_in_transaction_mode_when_nothing_is_prepared),
        cmocka_unit_test(prepared_statements_are_unsupported_in_transaction_mode),
        cmocka_unit_test(a_schema_in_the_connection_string_is_refused),
        cmocka_unit_test(an_append_goes_on_when_its_session_is_gone),
        cmocka_unit_test(a_waiter_wakes_through_a_pooler),
        cmocka_unit_test(a_standby_is_read_through_a_pooler),
    };
    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
