/* Retention: what ms_pg_retire deletes, what it leaves, and what is not shipped again.
 * Part of faults.c. */

#ifndef POSTGRES_RETIRE_H
#define POSTGRES_RETIRE_H

/* Counts the totals that are not what the records amount to. */
#define PG_WRONG_TOTALS                                                                  \
    "select count(*) from msgstore_bucket b left join (select bucket, count(*) filter"   \
    " (where kind = 1) as stored, count(*) filter (where kind > 1) as changes,"          \
    " count(*) filter (where " PG_SHOWN ") as shown, sum(length(body)) filter (where"    \
    " kind = 1) as bytes, max(seq) filter (where kind = 1) as newest from"               \
    " msgstore_record group by bucket) r on r.bucket = b.bucket where (b.stored,"        \
    " b.changes, b.hidden, b.bytes) is distinct from (coalesce(r.stored, 0),"            \
    " coalesce(r.changes, 0), coalesce(r.stored - r.shown, 0), coalesce(r.bytes, 0)) or" \
    " b.newest < coalesce(r.newest, 0)"

static void must_amount(void)
{
    assert_int_equal(ask_sql("one", PG_WRONG_LOCATIONS), 0);
    assert_int_equal(ask_sql("one", PG_WRONG_TOTALS), 0);
}

/* Appends a message whose time is `time`; 0: none. Returns its number. */
static uint64_t append_old(ms_store *store, const char *location, int64_t time)
{
    ms_envelope m = ms_user_message(ms_text("some text"));
    ms_error err;
    uint64_t seq = 0;
    m.has_time = time != 0;
    m.time_ns = time;
    must_ok(ms_append(store, ms_str_of(location), &m, &seq, &err), &err, "append");
    return seq;
}

static ms_store *store_of_old(void)
{
    ms_pg_desc desc = desc_of(url_of("one", ""));
    desc.keep_unset_times = true;
    return open_desc(&desc);
}

static ms_pg_retire_report retire(ms_store *store, const char *prefix, int64_t before,
                                  size_t portion, bool dry)
{
    ms_pg_retire_desc d;
    ms_pg_retire_report report;
    ms_error err;
    memset(&d, 0, sizeof d);
    d.prefix = ms_str_of(prefix);
    d.before_ns = before;
    d.portion = portion;
    d.dry_run = dry;
    must_ok(ms_pg_retire(store, &d, &report, &err), &err, "retire");
    return report;
}

static bool has_facts(ms_store *store, const char *location)
{
    ms_str facts;
    ms_error err;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    must_ok(ms_location_get(store, ms_str_of(location), &arena, &facts, &err), &err,
            "facts");
    bool some = !ms_str_equal(facts, MS_STR("{}"));
    ms_arena_deinit(&arena);
    return some;
}

/* a/1 has messages of times 1 to 10, with changes; a/2 only old ones; a/3 one without a
 * time; b/1 is of another prefix. */
static void retire_fixture(ms_store *store)
{
    ms_error err;
    uint64_t seq[11], hidden = 0;
    ms_envelope m = ms_user_message(ms_text("amended"));
    for (int i = 1; i <= 10; i++) seq[i] = append_old(store, "a/1", i);
    m.has_time = true;
    m.time_ns = 2;
    must_ok(ms_amend(store, seq[2], &m, &err), &err, "amend");
    m.time_ns = 9;
    must_ok(ms_amend(store, seq[9], &m, &err), &err, "amend");
    must_ok(ms_note(store, seq[3], MS_STR("k"), ms_text("noted"), &err), &err, "note");
    must_ok(ms_hide(store, seq[4], &err), &err, "hide");
    must_ok(ms_hide_range(store, MS_STR("a/1"), seq[5], seq[7], &hidden, &err), &err,
            "hide");
    assert_int_equal(hidden, 3);
    must_ok(ms_location_set(store, MS_STR("a/1"), MS_STR("{\"a\":1}"), &err), &err, "set");
    for (int i = 1; i <= 3; i++) seq[i] = append_old(store, "a/2", i);
    must_ok(ms_hide(store, seq[3], &err), &err, "hide");
    must_ok(ms_location_set(store, MS_STR("a/2"), MS_STR("{\"a\":1}"), &err), &err, "set");
    (void)append_old(store, "a/3", 0);
    (void)append_old(store, "b/1", 1);
}

static void old_messages_go_with_their_changes(void **state)
{
    ms_store *store = store_of_old();
    ms_error err;
    (void)state;
    retire_fixture(store);
    uint64_t newest = stat_of(store).last_seq;
    ms_pg_retire_report dry = retire(store, "a/", 6, 0, true);
    assert_int_equal(ask_sql("one", "select count(*) from msgstore_retired"), 0);
    assert_int_equal(stat_of(store).messages, 10);
    ms_pg_retire_report done = retire(store, "a/", 6, 2, false);
    assert_memory_equal(&dry, &done, sizeof dry);
    /* a/1: 5, an amendment, a note, a hide; a/2: 3, a hide, facts */
    assert_int_equal(done.messages, 8);
    assert_int_equal(done.changes, 5);
    assert_int_equal(done.locations, 1);
    assert_int_equal(done.untimed, 1);
    must_amount();
    assert_int_equal(stat_of(store).messages, 3 + 1 + 1);
    assert_int_equal(stat_of(store).hidden, 2);
    assert_int_equal(stat_of(store).last_seq, newest);
    assert_true(has_facts(store, "a/1"));
    assert_false(has_facts(store, "a/2"));
    assert_int_equal(ask_sql("one", "select count(*) from msgstore_location where location"
                                    " = 'a/2'"), 0);
    assert_true(append_old(store, "a/2", 20) > newest);
    done = retire(store, "a/", 6, 0, false);
    assert_int_equal(done.messages, 0);
    done = retire(store, "", 100, 0, false);
    assert_int_equal(done.messages, 5 + 1 + 1); /* what was hidden, too */
    must_amount();
    assert_int_equal(ask_sql("one", "select count(*) from msgstore_record"), 1);
    ms_pg_retire_desc d;
    memset(&d, 0, sizeof d);
    d.before_ns = INT64_MAX;
    assert_int_equal(ms_pg_retire(store, &d, NULL, &err), MS_E_ARGUMENT);
    ms_close(store);
}

/* A limit is kept to a portion, and says that there is more. */
static void retiring_stops_at_its_limit(void **state)
{
    ms_store *store = store_of_old();
    ms_pg_retire_desc d;
    ms_pg_retire_report report;
    ms_error err;
    uint64_t all = 0;
    int calls = 0;
    (void)state;
    for (int i = 1; i <= 20; i++) (void)append_old(store, "a/1", i);
    memset(&d, 0, sizeof d);
    d.before_ns = 100;
    d.portion = 3;
    d.limit = 7;
    do {
        must_ok(ms_pg_retire(store, &d, &report, &err), &err, "retire");
        assert_in_range(report.messages, 0, 9);
        all += report.messages;
        calls++;
    } while (report.more);
    assert_int_equal(all, 20);
    assert_int_equal(calls, 3);
    must_amount();
    ms_close(store);
}

/* A process that retires is killed again and again, and another client looks: rows and
 * totals are what the records amount to at each moment, and in the end all is done. */
static void retiring_goes_on_after_a_kill(void **state)
{
    (void)state;
    ms_store *store = store_of_old();
    for (int i = 1; i <= 400; i++) (void)append_old(store, i % 4 ? "a/1" : "a/2", i);
    ms_close(store);
    int killed = 0;
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        if (child == 0) {
            store = store_of_old();
            (void)retire(store, "a/", 399, 1, false);
            _exit(0);
        }
        int status, looks = 0;
        nap(80 + 40 * round);
        for (; looks < 2; looks++) must_amount();
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status)) break;
        killed++;
        must_amount();
    }
    assert_in_range(killed, 1, 100);
    must_amount();
    assert_int_equal(ask_sql("one", "select count(*) from msgstore_record"), 2);
}

static volatile int retire_ended;

static void *retire_race(void *arg)
{
    ms_pg_retire_report report = retire((ms_store *)arg, "race/", 100, 0, false);
    retire_ended = 1;
    return (void *)(uintptr_t)report.messages;
}

/* A shipper under way has not seen the rule: what it stores then is deleted, too. */
static void retiring_waits_for_a_shipper_under_way(void **state)
{
    ms_store *store = store_of_old();
    pthread_t thread;
    char text[700];
    void *messages;
    (void)state;
    uint64_t seq = append_old(store, "race/1", 1);
    int bucket = (int)ms_pg_bucket(MS_STR("race/2"));
    PGconn *other = PQconnectdb(url_of("one", ""));
    snprintf(text, sizeof text, "begin; select 1 from msgstore_bucket where bucket = %d"
             " for update; insert into msgstore_record (seq, place, time, bucket, kind,"
             " type, location, body) select %d, %d, 2, %d, 1, type, 'race/2', body from"
             " msgstore_record where seq = %llu; insert into msgstore_location values (1,"
             " %d, %d, 2, 2, %d, %d, %d, 0, %d, 'race/2')", bucket, bucket, bucket, bucket,
             (unsigned long long)seq, bucket, bucket, bucket, bucket, bucket, bucket);
    PQclear(PQexec(other, text));
    assert_int_equal(pthread_create(&thread, NULL, retire_race, store), 0);
    const char *waits = "select count(*) from pg_locks where not granted";
    while (!retire_ended && ask_sql("one", waits) == 0) nap(50);
    PQclear(PQexec(other, "commit"));
    pthread_join(thread, &messages);
    PQfinish(other);
    assert_int_equal((uintptr_t)messages, 2);
    ask_sql("one", "update msgstore_bucket set stored = 0, bytes = 0, hidden = 0");
    must_amount();
    ms_close(store);
}

/* Ships message `seq` of a location, with a time; returns how many were retired. */
static uint64_t ship_old(ms_store *store, const char *source, const char *location,
                         uint64_t seq, int64_t time)
{
    ms_error err;
    uint64_t under = 0;
    ms_envelope m = ms_user_message(ms_text("shipped"));
    m.location = ms_str_of(location);
    m.seq = seq;
    m.has_time = true;
    m.time_ns = time;
    must_ok(ms_pg_ship(store, ms_str_of(source), NULL, &m, 1, &under, &err), &err, "ship");
    return under;
}

/* Makes a change of that message, or (kind LOCATION) sets facts; returns how many were
 * retired. */
static uint64_t ship_old_change(ms_store *store, ms_kind kind, const char *location,
                                uint64_t seq, int64_t time)
{
    ms_record record;
    const ms_msg *change, *message;
    ms_arena arena;
    ms_error err;
    uint64_t under = 0;
    test_arena_init(&arena, NULL);
    memset(&record, 0, sizeof record);
    record.kind = MS_KIND_MESSAGE;
    record.envelope = ms_user_message(ms_text("shipped"));
    record.envelope.location = ms_str_of(location);
    record.envelope.seq = seq;
    record.envelope.has_time = true;
    record.envelope.time_ns = time;
    must_ok(ms_encode(&record.envelope, &arena, &message, &err), &err, "encode");
    record.kind = kind;
    if (kind == MS_KIND_NOTE) record.envelope.type_name = MS_STR("k");
    if (kind == MS_KIND_LOCATION) record.envelope.content = ms_json(MS_STR("{\"a\":1}"));
    must_ok(ms_record_encode(&record, &arena, &change, &err), &err, "encode");
    ms_result code = ms_pg_ship_change(store, MS_STR("s"), NULL, change,
                                       kind == MS_KIND_LOCATION ? NULL : message, &under,
                                       &err);
    must_ok(code, &err, "change");
    ms_arena_deinit(&arena);
    return under;
}

/* What falls under a rule is accepted and counted, also from a source that is new or
 * begins again; of another prefix, or with a later time, it is stored. */
static void what_was_retired_is_not_shipped_again(void **state)
{
    ms_store *store = store_of_old();
    (void)state;
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(ship_old(store, "s", "a/1", i, (int64_t)i), 0);
    assert_int_equal(ship_old_change(store, MS_KIND_NOTE, "a/1", 1, 1), 0);
    assert_int_equal(retire(store, "a/", 3, 0, false).messages, 2);
    for (uint64_t i = 1; i <= 4; i++) {
        assert_int_equal(ship_old(store, "s", "a/1", i, (int64_t)i), i < 3);
        assert_int_equal(ship_old(store, "new", "a/1", i, (int64_t)i), i < 3);
    }
    assert_int_equal(ship_old_change(store, MS_KIND_NOTE, "a/1", 1, 1), 1);
    assert_int_equal(ship_old_change(store, MS_KIND_NOTE, "a/1", 3, 3), 0);
    assert_int_equal(ship_old_change(store, MS_KIND_LOCATION, "a/1", 0, 1), 0);
    assert_int_equal(ship_old_change(store, MS_KIND_LOCATION, "a/2", 0, 1), 1);
    assert_int_equal(ship_old_change(store, MS_KIND_LOCATION, "a/2", 0, 4), 0);
    assert_int_equal(ship_old(store, "s", "b/1", 5, 1), 0);
    assert_int_equal(ask_sql("one", "select count(*) from msgstore_record where kind = 1"),
                     5);
    must_amount();
    ms_close(store);
}

#endif /* POSTGRES_RETIRE_H */
