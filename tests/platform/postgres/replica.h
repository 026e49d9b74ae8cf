/* Readers on a standby. Part of faults.c. */

#ifndef POSTGRES_REPLICA_H
#define POSTGRES_REPLICA_H

/* A primary and an asynchronous standby of it. */
static void make_pair(const char *primary, const char *standby)
{
    char rest[200];
    server_must("make", primary, "fsync=off autovacuum=off wal_level=replica"
                " max_wal_senders=5");
    ms_close(open_url(url_of(primary, "")));
    snprintf(rest, sizeof rest, "%s/%s", folder, primary);
    server_must("copy", standby, rest);
}

/* The pair of most tests, made by the first one. */
static bool paired;

static void need_pair(void)
{
    if (!paired) make_pair("r1", "r2");
    paired = true;
    forget("r1");
}

static void end_pair(const char *primary, const char *standby)
{
    char command[400];
    server_do("stop", primary, "");
    server_do("stop", standby, "");
    snprintf(command, sizeof command, "rm -rf %s/%s %s/%s", folder, primary, folder,
             standby);
    assert_int_equal(system(command), 0);
}

static void pause_replay(const char *standby)
{
    int64_t end = ms__pg_now() + 10000;
    ask_sql(standby, "select pg_wal_replay_pause()");
    while (ask_sql(standby, "select case pg_get_wal_replay_pause_state() when 'paused'"
                            " then 1 else 0 end") != 1) {
        if (ms__pg_now() > end) fail_msg("%s replays on", standby);
        nap(5);
    }
}

static void resume_replay(const char *standby)
{
    ask_sql(standby, "select pg_wal_replay_resume()");
}

static ms_pg_counts counts_of(ms_store *store)
{
    ms_pg_counts counts;
    ms_error err;
    must_ok(ms_pg_count(store, &counts, &err), &err, "count");
    return counts;
}

static ms_store *open_reader(const char *primary, const char *standby, uint32_t lag_ms)
{
    ms_pg_desc desc = desc_of(url_of(primary, ""));
    desc.replica_url = url_of(standby, "");
    desc.replica_lag_ms = lag_ms;
    return open_desc(&desc);
}

/* The number of the newest message of a location; 0: none. */
static uint64_t newest_of(ms_store *store, const char *location)
{
    ms_query q = query_of(ms_str_of(location), 0);
    ms_cursor it;
    uint64_t seq = 0;
    q.limit = 1;
    EACH (msg, store, &q, &it) seq = ms_seq(msg);
    return seq;
}

/* Reads until the replica has answered. */
static void must_use_replica(ms_store *store)
{
    uint64_t before = counts_of(store).replica_reads;
    int64_t end = ms__pg_now() + 25000;
    while (counts_of(store).replica_reads == before) {
        if (ms__pg_now() > end) {
            ms_pg_counts c = counts_of(store);
            fail_msg("the replica is not read: %llu behind, %llu away, %llu foreign",
                     (unsigned long long)c.replica_behind,
                     (unsigned long long)c.replica_away,
                     (unsigned long long)c.replica_foreign);
        }
        (void)newest_of(store, "job");
        nap(5);
    }
}

static uint64_t append_seq(ms_store *store, const char *location)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    uint64_t seq = 0;
    ms_error err;
    must_ok(ms_append(store, ms_str_of(location), &m, &seq, &err), &err, "append");
    return seq;
}

/* While the standby stands still, a handle reads what it has written, changes too, and
 * what others have written longer ago than the limit. */
static void a_reader_has_its_own_writes(void **state)
{
    ms_error err;
    ms_arena arena;
    ms_list_query every;
    ms_listing listing;
    (void)state;
    memset(&every, 0, sizeof every);
    test_arena_init(&arena, NULL);
    need_pair();
    ms_store *store = open_reader("r1", "r2", 0), *other = open_url(url_of("r1", ""));
    (void)append_seq(store, "job");
    must_use_replica(store);
    pause_replay("r2");
    for (int i = 1; i <= 1000; i++) {
        uint64_t seq = append_seq(store, "job");
        if (newest_of(store, "job") != seq) fail_msg("append %d is not read", i);
        if (i % 100 != 0) continue;
        assert_int_equal(stat_of(store).messages, i + 1);
        must_ok(ms_list(store, &every, &arena, &listing, &err), &err, "list");
        assert_int_equal(listing.items[0].messages, i + 1);
    }
    assert_true(counts_of(store).replica_behind >= 1000);
    must_ok(ms_hide(store, newest_of(store, "job"), &err), &err, "hide");
    assert_int_equal(stat_of(store).messages, 1000);
    resume_replay("r2");
    must_use_replica(store);
    assert_int_equal(stat_of(store).messages, 1000);

    pause_replay("r2");
    uint64_t seq = append_seq(other, "job");
    nap(1100);
    assert_int_equal(newest_of(store, "job"), seq);
    resume_replay("r2");
    must_use_replica(store);
    pause_replay("r2");
    seq = append_seq(other, "job"); /* known from elsewhere */
    must_ok(ms_pg_newest(store, &err), &err, "newest");
    assert_int_equal(newest_of(store, "job"), seq);
    resume_replay("r2");
    must_use_replica(store);
    pause_replay("r2");
    uint64_t last = 0;
    seq = append_seq(other, "job");
    int64_t start = ms__pg_now();
    must_ok(ms_wait(store, seq - 1, 5000, &last, &err), &err, "wait");
    assert_in_range((uint64_t)(ms__pg_now() - start), 0, 900);
    assert_int_equal(newest_of(store, "job"), seq);
    resume_replay("r2");
    must_use_replica(store);
    pause_replay("r2");
    seq = append_seq(other, "job"); /* a change of what the standby does not have */
    must_ok(ms_hide(store, seq, &err), &err, "hide");
    resume_replay("r2");
    ms_close(other);
    ms_close(store);
    ms_arena_deinit(&arena);
}

/* Readers that write nothing ask the standby alone, but for a mark now and then. */
static void readers_leave_the_primary_alone(void **state)
{
    static const char commits[] = "select xact_commit from pg_stat_database where datname"
                                  " = 'postgres'";
    ms_error err;
    (void)state;
    need_pair();
    ask_sql("r1", "create role plain login; grant usage on schema public to plain;"
                   " grant select on all tables in schema public to plain");
    ms_store *store = open_url(url_of("r1", ""));
    for (int i = 0; i < 200; i++) (void)append_seq(store, "job");
    ms_close(store);
    char urls[2][400];
    for (int i = 0; i < 2; i++)
        snprintf(urls[i], sizeof urls[i], "host=%s/r%d user=plain dbname=postgres",
                 folder, i + 1);
    ms_pg_desc desc = desc_of(urls[0]);
    desc.replica_url = urls[1];
    desc.connections = 1;
    desc.no_create = true;
    store = open_desc(&desc);
    must_use_replica(store);
    nap(1500); /* the servers count with a delay */
    (void)newest_of(store, "job");
    nap(100);
    long long primary = ask_sql("r1", commits), standby = ask_sql("r2", commits);
    int64_t start = ms__pg_now();
    ms_pg_counts before = counts_of(store);
    for (int i = 0; i < 2000; i++) (void)newest_of(store, "job");
    uint64_t marks = (uint64_t)(ms__pg_now() - start) / 500 + 4;
    ms_pg_counts after = counts_of(store);
    nap(1500);
    (void)newest_of(store, "job");
    nap(100);
    primary = ask_sql("r1", commits) - primary;
    standby = ask_sql("r2", commits) - standby;
    printf("tally: transactions of 2,000 reads: %lld of the primary, %lld of the standby"
           "\n", primary, standby);
    assert_true(after.replica_reads - before.replica_reads >= 1990);
    assert_in_range(primary, 0, 60 + marks);
    assert_true(standby >= 1990);
    must_ok(ms_pg_close_idle(store, 0, &err), &err, "close");
    assert_int_equal(counts_of(store).connections, 0);
    assert_int_not_equal(newest_of(store, "job"), 0);
    ms_close(store);

    desc.replica_url = url_of("r2", "options=-csearch_path=pg_temp"); /* other tables */
    store = open_desc(&desc);
    assert_int_not_equal(newest_of(store, "job"), 0);
    assert_int_equal(counts_of(store).replica_foreign, 1);
    assert_int_equal(counts_of(store).replica_reads, 0);
    ms_close(store);
}

typedef struct reading {
    pthread_t thread;
    ms_store *store;
    int stop;                 /* atomic */
    uint64_t reads, bad;
    const uint64_t *least;    /* a number that must be read */
} reading;

static void *read_on(void *arg)
{
    reading *r = (reading *)arg;
    uint64_t last = 0;
    while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
        ms_cursor it;
        ms_query q = query_of(MS_STR("job"), 0);
        ms_error err;
        q.limit = 1;
        uint64_t seq = 0, least = __atomic_load_n(r->least, __ATOMIC_ACQUIRE);
        if (ms_query_open(r->store, &q, &it, &err) != MS_OK) r->bad++;
        for (const ms_msg *msg; (msg = ms_next(&it)) != NULL;) seq = ms_seq(msg);
        if (ms_cursor_close(&it, &err) != MS_OK) r->bad++;
        r->reads++;
        r->bad += seq < last || seq < least;
        last = seq;
    }
    return NULL;
}

static void readings_start(reading *r, int n, ms_store *store, const uint64_t *least)
{
    memset(r, 0, (size_t)n * sizeof *r);
    for (int i = 0; i < n; i++) {
        r[i].store = store;
        r[i].least = least;
        assert_int_equal(pthread_create(&r[i].thread, NULL, read_on, &r[i]), 0);
    }
}

static void readings_end(reading *r, int n)
{
    for (int i = 0; i < n; i++) __atomic_store_n(&r[i].stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) pthread_join(r[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        assert_true(r[i].reads > 0);
        assert_int_equal(r[i].bad, 0);
    }
}

/* The standby is killed and comes back, amid reads: each has the right answer. */
static void readers_go_on_when_a_replica_is_killed(void **state)
{
    reading r[4];
    (void)state;
    need_pair();
    ms_store *store = open_reader("r1", "r2", 300);
    uint64_t least = append_seq(store, "job");
    must_use_replica(store);
    readings_start(r, 4, store, &least);
    for (int round = 0; round < rounds; round++) {
        nap(300);
        server_must("kill", "r2", "");
        nap(300);
        __atomic_store_n(&least, append_seq(store, "job"), __ATOMIC_RELEASE);
        server_must("start", "r2", "");
        must_use_replica(store);
    }
    readings_end(r, 4);
    assert_true(counts_of(store).replica_away > 0);

    ms_query q = query_of(MS_STR("long"), 0);
    ms_cursor it;
    size_t n = 0;
    append_many(store, MS_STR("long")); /* a cursor has pages of both */
    must_use_replica(store);
    uint64_t reads = counts_of(store).replica_reads;
    EACH (msg, store, &q, &it)
        if (msg != NULL && ++n == 100) server_must("kill", "r2", "");
    assert_int_equal(n, MANY);
    assert_true(counts_of(store).replica_reads > reads);
    server_must("start", "r2", "");
    ms_close(store);
}

/* What a promoted standby has by itself is not read, on old connections or new ones. */
static void a_promoted_replica_is_not_read(void **state)
{
    reading r[2];
    (void)state;
    need_pair();
    ms_store *store = open_reader("r1", "r2", 60000);
    uint64_t least = append_seq(store, "job");
    must_use_replica(store);
    server_must("promote", "r2", "");
    ms_store *apart = open_url(url_of("r2", ""));
    uint64_t seq = append_seq(apart, "job");
    assert_int_equal(newest_of(store, "job"), least);
    assert_int_equal(counts_of(store).replica_foreign, 1);
    readings_start(r, 2, store, &least);
    for (int i = 0; i < 50; i++) {
        seq = append_seq(apart, "job");
        nap(10);
    }
    readings_end(r, 2);
    assert_int_equal(newest_of(store, "job"), least);
    assert_int_not_equal(seq, least);
    ms_close(apart);
    ms_close(store);
    end_pair("r1", "r2");
    paired = false;
}

/* A standby of the primary that failed is no standby of the one that took over, though it
 * is further in the old one's log. */
static void a_replica_of_another_timeline_is_not_read(void **state)
{
    char rest[200];
    (void)state;
    make_pair("rt1", "rt2");
    snprintf(rest, sizeof rest, "%s/rt1", folder);
    server_must("copy", "rt3", rest);
    ms_store *old = open_url(url_of("rt1", ""));
    uint64_t least = append_seq(old, "job");
    int64_t end = ms__pg_now() + 10000;
    while (ask_sql("rt3", "select sum(stored) from msgstore_bucket") != 1 &&
           ms__pg_now() < end)
        nap(20);
    server_must("stop", "rt3", "");
    for (int i = 0; i < 200; i++) (void)append_seq(old, "job"); /* rt3 lacks these */
    while (ask_sql("rt2", "select sum(stored) from msgstore_bucket") != 201 &&
           ms__pg_now() < end)
        nap(20);
    ms_close(old);
    server_must("stop", "rt1", "");
    server_must("start", "rt3", "");
    server_must("promote", "rt3", "");
    ms_store *store = open_reader("rt3", "rt2", 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(newest_of(store, "job"), least);
        nap(20);
    }
    assert_int_equal(counts_of(store).replica_reads, 0);
    assert_true(counts_of(store).replica_foreign > 0);
    ms_close(store);
    end_pair("rt1", "rt2");
    end_pair("rt3", "rt3");
}

/* Others append, and the standby stands still now and then. What is read never goes back,
 * and has what was there longer ago than the limit. */
static void what_is_read_never_goes_back(void **state)
{
    enum { LAG = 200, SLACK = 30 };
    reading r[3];
    uint64_t rng = test_seed() + 7, least = 0;
    (void)state;
    need_pair();
    ms_store *store = open_reader("r1", "r2", LAG), *other = open_url(url_of("r1", ""));
    static struct { int64_t at; uint64_t seq; } made[20000];
    size_t n = 0, due = 0;
    (void)append_seq(other, "job");
    must_use_replica(store);
    readings_start(r, 3, store, &least);
    bool paused = false;
    int64_t end = ms__pg_now() + 1500 * rounds, turn = 0;
    while (ms__pg_now() < end && n < 20000) {
        made[n].seq = append_seq(other, "job");
        made[n++].at = ms__pg_now();
        while (due < n && ms__pg_now() - made[due].at > LAG + SLACK) due++;
        if (due > 0) __atomic_store_n(&least, made[due - 1].seq, __ATOMIC_RELEASE);
        if (ms__pg_now() > turn) {
            paused = !paused;
            if (paused) pause_replay("r2");
            else resume_replay("r2");
            turn = ms__pg_now() + 20 + (int64_t)test_below(&rng, 400);
        }
        nap(1);
    }
    readings_end(r, 3);
    ms_pg_counts c = counts_of(store);
    printf("tally: reads beside a standby that stands still at times: %llu of it, %llu of"
           " the primary\n", (unsigned long long)c.replica_reads,
           (unsigned long long)c.replica_behind);
    resume_replay("r2");
    assert_true(c.replica_reads > 0 && c.replica_behind > 0);
    ms_close(other);
    ms_close(store);
}

/* A standby and another one, in the order of the hosts of replica_url. */
static ms_store *open_reader_of_two(const char *primary, const char *first,
                                    const char *second, uint32_t lag_ms)
{
    char url[500];
    ms_pg_desc desc = desc_of(url_of(primary, ""));
    snprintf(url, sizeof url, "host=%s/%s,%s/%s user=test dbname=postgres", folder, first,
             folder, second);
    desc.replica_url = url;
    desc.replica_lag_ms = lag_ms;
    return open_desc(&desc);
}

/* A reader that began while one standby had what it needs is not answered by another one
 * that the handle has turned to since, and that lacks it. When a standby is promoted, the
 * other one is read. */
static void readers_go_on_with_another_replica(void **state)
{
    char rest[200];
    ms_error err;
    ms__pg_reader reader;
    ms__pg_line *line;
    ms__pg_stmt q;
    PGresult *r = NULL;
    enum ms__pg_why tried = MS__PG_FITS;
    (void)state;
    make_pair("ra1", "ra2");
    snprintf(rest, sizeof rest, "%s/ra1", folder);
    server_must("copy", "ra3", rest);
    ms_store *store = open_reader_of_two("ra1", "ra2", "ra3", 60000);
    ms_store *other = open_url(url_of("ra1", ""));
    ms__pg *s = ms__pg_of(store);
    must_use_replica(store);
    pause_replay("ra3");
    uint64_t seq = append_seq(other, "job");
    must_ok(ms_pg_newest(store, &err), &err, "newest");
    must_use_replica(store);
    assert_int_equal(newest_of(store, "job"), seq);
    assert_true(ms__pg_reader_begin(s, &s->servers[0].replica, &reader));
    assert_true(reader.usable && !reader.trying);
    server_must("stop", "ra2", "");
    int64_t end = ms__pg_now() + 15000, old = s->servers[0].replica.instance;
    while (s->servers[0].replica.instance == old && ms__pg_now() < end) {
        assert_int_equal(newest_of(store, "job"), seq);
        nap(20);
    }
    assert_int_not_equal(s->servers[0].replica.instance, old);
    ms__pg_start(&q, "select 1");
    must_ok(ms__pg_take(s, 1, ms__pg_now() + 5000, &line, &err), &err, "take");
    assert_int_not_equal(ms__pg_ask_line(s, 0, line, &q, &reader, &r, &tried),
                         MS__PG_FITS);
    PQclear(r);
    ms__pg_give(s, line);
    ms_close(store);

    server_must("start", "ra2", "");
    resume_replay("ra3");
    store = open_reader_of_two("ra1", "ra2", "ra3", 0);
    must_use_replica(store);
    server_must("promote", "ra2", "");
    nap(600); /* the next reader asks how far it is */
    assert_int_equal(newest_of(store, "job"), seq);
    must_use_replica(store);
    ms_close(store);
    ms_close(other);
    end_pair("ra1", "ra2");
    end_pair("ra3", "ra3");
}

/* A standby that begins again, since one of its processes has crashed, may be at an
 * earlier position, though its server was not started again. */
static void a_replica_that_has_crashed_is_compared_again(void **state)
{
    (void)state;
    need_pair();
    ms_pg_desc desc = desc_of(url_of("r1", ""));
    desc.replica_url = url_of("r2", "");
    desc.replica_lag_ms = 60000;
    desc.release = true;
    ms_store *store = open_desc(&desc);
    uint64_t seq = append_seq(store, "job");
    must_use_replica(store);
    assert_int_equal(newest_of(store, "job"), seq);
    ask_sql("r2", "alter system set recovery_min_apply_delay = '1h'");
    ask_sql("r2", "select pg_reload_conf()");
    nap(300);
    long long started = ask_sql("r2", "select extract(epoch from"
                                      " pg_postmaster_start_time())::bigint");
    pid_t pid = (pid_t)ask_sql("r2", "select pid from pg_stat_activity where backend_type"
                                     " = 'background writer'");
    assert_int_equal(kill(pid, SIGKILL), 0);
    int64_t end = ms__pg_now() + 30000;
    for (bool up = false; !up;) {
        if (ms__pg_now() > end) fail_msg("the standby is away");
        nap(50);
        PGconn *conn = PQconnectdb(url_of("r2", ""));
        up = PQstatus(conn) == CONNECTION_OK;
        PQfinish(conn);
    }
    assert_int_equal(ask_sql("r2", "select extract(epoch from"
                                   " pg_postmaster_start_time())::bigint"), started);
    for (int i = 0; i < 20; i++) assert_int_equal(newest_of(store, "job"), seq);
    ask_sql("r2", "alter system reset recovery_min_apply_delay");
    ask_sql("r2", "select pg_reload_conf()");
    must_use_replica(store);
    ms_close(store);
}

static void signal_server(const char *name, const char *signal)
{
    char command[400];
    snprintf(command, sizeof command, "p=$(head -n 1 %s/%s/data/postmaster.pid);"
             " kill -%s $p $(ps -o pid= --ppid $p)", folder, name, signal);
    assert_int_equal(system(command), 0);
}

/* A call of a reader takes timeout_ms at most, with the time that it waits for a silent
 * standby; that leaves enough for a primary that answers. */
static void a_reader_ends_in_time_when_servers_are_silent(void **state)
{
    enum { TIMEOUT = 3000, SLACK = 600 };
    ms_stat stat;
    ms_error err;
    (void)state;
    need_pair();
    for (uint32_t lag = 400; lag <= 60000; lag += 59600) {
        ms_pg_desc desc = desc_of(url_of("r1", ""));
        desc.replica_url = url_of("r2", "");
        desc.replica_lag_ms = lag;
        desc.timeout_ms = TIMEOUT;
        ms_store *store = open_desc(&desc);
        must_use_replica(store);
        signal_server("r2", "STOP");
        int64_t start = ms__pg_now();
        ms_result code = ms_store_stat(store, &stat, &err);
        int64_t alone = ms__pg_now() - start;
        signal_server("r2", "CONT");
        assert_int_equal(code, MS_OK);
        assert_in_range((uint64_t)alone, 0, TIMEOUT + SLACK);
        must_use_replica(store);
        signal_server("r2", "STOP");
        signal_server("r1", "STOP");
        start = ms__pg_now();
        code = ms_store_stat(store, &stat, &err);
        int64_t both = ms__pg_now() - start;
        signal_server("r1", "CONT");
        signal_server("r2", "CONT");
        assert_int_equal(code, MS_E_UNREACHABLE);
        printf("tally: a reader of silent servers: %lld ms, %lld ms\n", (long long)alone,
               (long long)both);
        assert_in_range((uint64_t)both, 0, TIMEOUT + SLACK);
        ms_close(store);
    }
}

/* What the primary has not flushed is in a mark, also where its last record ends as far
 * after the beginning of a page as the longer header of a page is. */
static void a_mark_has_the_end_of_the_log(void **state)
{
    ms__pg_line *line;
    ms__pg_state_now now;
    ms_error err;
    (void)state;
    server_must("make", "rw1", "fsync=off autovacuum=off wal_level=replica"
                " synchronous_commit=off wal_writer_delay=1500ms");
    ms_store *store = open_url(url_of("rw1", ""));
    ms__pg *s = ms__pg_of(store);
    bool met = false;
    for (int i = 0; i < 20 && !met; i++) {
        nap(100);
        ask_sql("rw1", "checkpoint");
        ask_sql("rw1", "do $$ declare rest int; begin perform pg_logical_emit_message("
                       "false, 'x', repeat('y', 600)); rest := 8192 -"
                       " (pg_current_wal_insert_lsn() - '0/0') % 8192; if rest < 600 then"
                       " perform pg_logical_emit_message(false, 'x', repeat('y', rest +"
                       " 1000)); rest := 8192 - (pg_current_wal_insert_lsn() - '0/0') %"
                       " 8192; end if; perform pg_logical_emit_message(false, 'x',"
                       " repeat('y', rest + 16 - 56)); end $$");
        int64_t end = ms__pg_now() + 3000;
        while (!met && ms__pg_now() < end) {
            met = ask_sql("rw1", "select case when (f - '0/0') % 8192 = 0 and i - f = 40"
                                 " then 1 else 0 end from (select"
                                 " pg_current_wal_flush_lsn() as f,"
                                 " pg_current_wal_insert_lsn() as i) as w") == 1;
            if (!met) continue;
            must_ok(ms__pg_take(s, 0, ms__pg_now() + 5000, &line, &err), &err, "take");
            must_ok(ms__pg_state_ask(line, &now, &err), &err, "state");
            ms__pg_give(s, line);
        }
    }
    if (!met) printf("tally: no record ended 40 bytes into a page\n");
    else
        assert_int_equal(now.lsn, ask_sql("rw1", "select (pg_current_wal_insert_lsn() -"
                                                 " '0/0')::bigint"));
    ms_close(store);
    end_pair("rw1", "rw1");
}

static int no_pair(void **state)
{
    (void)state;
    if (paired) end_pair("r1", "r2");
    return 0;
}

#endif /* POSTGRES_REPLICA_H */
