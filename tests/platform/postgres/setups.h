/* Servers, databases and roles that are set up in another way. Part of faults.c. */

#ifndef POSTGRES_SETUPS_H
#define POSTGRES_SETUPS_H

/* Appends "x" with a key of its own. */
static ms_result append_keyed(ms_store *store, const char *location)
{
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    m.key = MS_STR("of the caller");
    return ms_append(store, ms_str_of(location), &m, NULL, &err);
}

static void *append_keyed_to_job(void *arg)
{
    return (void *)(uintptr_t)append_keyed((ms_store *)arg, "job");
}

static void need_standby(const char *names)
{
    char sql[100];
    snprintf(sql, sizeof sql, "alter system set synchronous_standby_names = '%s'", names);
    ask_sql("one", sql);
    ask_sql("one", "select pg_reload_conf()");
    nap(300);
}

/* Ends the session of the commit that waits for the standby. The server has stored what
 * it committed, but no other server has it. */
static void end_waiting_commit(void)
{
    while (ask_sql("one", "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                          " where wait_event = 'SyncRep'") == 0) {
        nap(10);
    }
}

/* An append whose commit was given up by the server is found by its repetition, and by an
 * append with the same key. It is acknowledged once a standby has it, as any other. */
static void what_is_found_again_is_on_the_standby(void **state)
{
    ms_pg_desc desc = desc_of(url_of("one", ""));
    pthread_t thread;
    void *code;
    (void)state;
    desc.timeout_ms = 3000;
    desc.no_notify = true;
    ms_store *store = open_desc(&desc);
    need_standby("absent");
    pthread_create(&thread, NULL, append_keyed_to_job, store);
    end_waiting_commit();
    pthread_join(thread, &code);
    end_waiting_commit();
    ms_result again = append_keyed(store, "job");
    need_standby("");
    assert_int_equal((uintptr_t)code, MS_E_UNREACHABLE);
    assert_int_equal(again, MS_E_UNREACHABLE);
    assert_int_equal(append_keyed(store, "job"), MS_OK);
    assert_int_equal(stat_of(store).messages, 1);
    ms_close(store);
}

/* A store over two servers is opened with one of them. It is refused, and nothing is made
 * there: both servers still belong together. */
static void one_server_of_two_is_refused(void **state)
{
    char half[2][400];
    const char *const urls[] = {half[0], half[1]};
    ms_store *store;
    ms_error err;
    ms_pg_desc all = desc_of(NULL), part;
    (void)state;
    ask_sql("one", "create schema half1; create schema half2");
    snprintf(half[0], sizeof half[0], "%s", url_of("one", "options=-csearch_path=half1"));
    snprintf(half[1], sizeof half[1], "%s", url_of("one", "options=-csearch_path=half2"));
    all.urls = urls;
    all.n_urls = 2;
    ms_close(open_desc(&all));
    for (int i = 0; i < 2; i++) {
        part = desc_of(half[i]);
        assert_int_equal(ms_pg_open(&store, &part, &err), MS_E_FOREIGN);
        assert_non_null(strstr(err.message, "the server has 512 of 1024 buckets"));
    }
    ms_close(open_desc(&all));
    ask_sql("one", "drop schema half1, half2 cascade");
}

static void *open_serializable(void *ctx)
{
    const ms_pg_desc desc =
        desc_of(url_of("one", "options='-csearch_path=stale"
                              " -cdefault_transaction_isolation=serializable'"));
    ms_store *store = NULL;
    if (ms_pg_open(&store, &desc, ctx) == MS_OK) ms_close(store);
    return NULL;
}

/* A client whose transactions are serializable waits for its turn to migrate. What a
 * client of version 2 stores meanwhile is counted. */
static void tables_are_migrated_whole_when_transactions_are_serializable(void **state)
{
    const char *url = url_of("one", "options=-csearch_path=stale");
    pthread_t thread;
    ms_error err = {0};
    (void)state;
    ask_sql("one", "create schema stale");
    ms_close(open_url(url));
    ask_sql("one", "set search_path = stale; drop table msgstore_location; alter table"
                   " msgstore_bucket drop column newest; alter table msgstore_bucket"
                   " rename column stored to messages; drop index msgstore_facts; alter"
                   " table msgstore_record drop column facts; delete from msgstore_schema"
                   " where version > 2");
    PGconn *old = PQconnectdb(url);
    PQclear(PQexec(old, "select pg_advisory_lock(6217836124188)"));
    pthread_create(&thread, NULL, open_serializable, &err);
    while (ask_sql("one", "select count(*) from pg_locks where locktype = 'advisory' and"
                          " not granted") == 0) {
        nap(10);
    }
    PQclear(PQexec(old, "insert into msgstore_record (seq, place, bucket, kind, type,"
                        " location, body) values (1031, 1031, 7, 1, 1, 'job', 'x')"));
    PQfinish(old);
    pthread_join(thread, NULL);
    assert_int_equal(err.code, MS_OK);
    assert_int_equal(ask_sql("one", "select n from stale.msgstore_location where"
                                    " location = 'job'"), 1);
    ask_sql("one", "drop schema stale cascade");
}

/* In KOI8 the letters of the alphabet stand in another order than in Unicode: "g" before
 * "v". A listing, and retention, find all locations with a prefix. */
static void a_prefix_is_found_when_the_encoding_has_another_order(void **state)
{
    static const char *const names[] = {"\xd0\xb2/1", "\xd0\xb2/2", "\xd0\xb3/1"};
    char url[400];
    ms_listing listing;
    ms_list_query of;
    ms_error err;
    ms_arena arena;
    ms_pg_retire_desc old;
    ms_pg_retire_report report;
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&of, 0, sizeof of);
    memset(&old, 0, sizeof old);
    ask_sql("one", "create database koi8 encoding 'KOI8R' locale 'C' template template0");
    snprintf(url, sizeof url, "%s dbname=koi8", url_of("one", ""));
    ms_store *store = open_url(url);
    for (int i = 0; i < 3; i++) assert_int_equal(append_x(store, names[i]), MS_OK);
    of.prefix = MS_STR("\xd0\xb2");
    must_ok(ms_list(store, &of, &arena, &listing, &err), &err, "list");
    assert_int_equal(listing.count, 2);
    old.prefix = of.prefix;
    old.before_ns = ms__pg_system_time();
    must_ok(ms_pg_retire(store, &old, &report, &err), &err, "retire");
    assert_int_equal(report.messages, 2);
    of.prefix = MS_STR("\xd1\x8f"); /* the last letter that the encoding has */
    must_ok(ms_list(store, &of, &arena, &listing, &err), &err, "list");
    assert_int_equal(listing.count, 0);
    ms_close(store);
    ms_arena_deinit(&arena);
    ask_sql("one", "drop database koi8");
}

/* A role commits before the disk has it. What ms_sync reported is there after a crash. */
static void what_was_synced_is_there_when_commits_are_asynchronous(void **state)
{
    ms_error err;
    uint64_t durable, seq = 0;
    ms_envelope m = ms_user_message(ms_text("x"));
    (void)state;
    ask_sql("one", "alter system set wal_writer_delay = '10s'");
    ask_sql("one", "select pg_reload_conf()");
    nap(300);
    ms_store *store =
        open_url(url_of("one", "options=-csynchronous_commit=off"));
    for (int i = 0; i < 5; i++) {
        must_ok(ms_append(store, MS_STR("job"), &m, &seq, &err), &err, "append");
        must_ok(ms_sync(store, &durable, &err), &err, "sync");
        assert_int_equal(durable, seq);
        server_must("kill", "one", "");
        server_must("start", "one", "");
        assert_int_equal(stat_of(store).messages, i + 1);
    }
    ms_close(store);
    ask_sql("one", "alter system reset all");
    ask_sql("one", "select pg_reload_conf()");
}

#endif /* POSTGRES_SETUPS_H */
