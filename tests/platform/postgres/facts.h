/* Facts of a location: what ms_location_get finds, and how much it reads for it, however
 * often they were set. Part of faults.c. */

#ifndef POSTGRES_FACTS_H
#define POSTGRES_FACTS_H

enum { FACTS_STEPS = 2000, FACTS_PLACES = 4, FACTS_PAGE = 64 };

static void set_facts(ms_store *store, const char *location, const char *facts)
{
    ms_error err;
    must_ok(ms_location_set(store, ms_str_of(location), ms_str_of(facts), &err), &err,
            "set");
}

static ms_str facts_of(ms_store *store, const char *location, ms_arena *arena)
{
    ms_str facts;
    ms_error err;
    must_ok(ms_location_get(store, ms_str_of(location), arena, &facts, &err), &err,
            "facts");
    return facts;
}

static void must_equal(const char *what, ms_str got, ms_str wanted)
{
    if (!ms_str_equal(got, wanted))
        fail_msg("%s: %.*s, not %.*s", what, (int)got.len, got.ptr, (int)wanted.len,
                 wanted.ptr);
}

/* The content of a record in a result. */
static ms_str content_at(const PGresult *r, int row, int column, ms_arena *arena)
{
    const ms_msg *msg;
    ms_error err;
    size_t n = (size_t)PQgetlength(r, row, column);
    void *bytes = ms_arena_alloc(arena, n);
    assert_non_null(bytes);
    memcpy(bytes, PQgetvalue(r, row, column), n);
    must_ok(ms_record_decode(bytes, n, 0, &msg, &err), &err, "decode");
    return ms_content(msg).text;
}

/* Compares what is read, and each row that has all facts, with what all rows up to it
 * amount to in an arena store. Returns how many rows have them. */
static int must_be_all_facts(ms_store *store, const char *location)
{
    ms_store *twin;
    ms_error err;
    ms_arena arena;
    const char *values[1] = {location};
    int found = 0;
    test_arena_init(&arena, NULL);
    must_ok(ms_mem_open(&twin, NULL, &err), &err, "open");
    PGconn *conn = PQconnectdb(url_of("one", ""));
    PGresult *r = PQexecParams(conn, "select body, facts from msgstore_record where"
                                     " location = $1 and kind = 6 order by place", 1,
                               NULL, values, NULL, NULL, 1);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(r); i++) {
        ms_str set = content_at(r, i, 0, &arena);
        must_ok(ms_location_set(twin, MS_STR("x"), set, &err), &err, "set");
        if (PQgetisnull(r, i, 1)) continue;
        found++;
        must_equal("all facts", content_at(r, i, 1, &arena), facts_of(twin, "x", &arena));
    }
    PQclear(r);
    PQfinish(conn);
    must_equal(location, facts_of(store, location, &arena), facts_of(twin, "x", &arena));
    ms_close(twin);
    ms_arena_deinit(&arena);
    return found;
}

/* Records that a look at the facts reads. */
static size_t facts_read(ms_store *store, const char *location)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(location);
    q.raw = MS_RAW_LOCATIONS;
    size_t all = count_of(store, &q);
    q.as_from = 1;
    size_t n = count_of(store, &q);
    assert_true(n <= all);
    return n;
}

/* A look reads no more than a page after many sets, whatever else the location has. A
 * query of all records shows each. */
static void facts_are_read_from_the_newest_row_that_has_all(void **state)
{
    ms_error err;
    ms_query q;
    ms_arena arena;
    char text[5000];
    uint64_t seq = 0;
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_store *store = open_url(url_of("one", ""));
    (void)state;
    test_arena_init(&arena, NULL);
    must_ok(ms_append(store, MS_STR("noted"), &m, &seq, &err), &err, "append");
    for (int i = 0; i < 600; i++) {
        snprintf(text, sizeof text, "{\"a\":%d,\"k%d\":%d}", i, i % 7, i);
        set_facts(store, "often", text);
        snprintf(text, sizeof text, "{\"b\":%d}", i);
        if (i % 3 == 0) set_facts(store, "noted", text);
        must_ok(ms_note(store, seq, MS_STR("k"), ms_text("noted"), &err), &err, "note");
        assert_in_range(facts_read(store, "often"), 1, FACTS_PAGE);
        assert_in_range(facts_read(store, "noted"), 1, FACTS_PAGE);
    }
    memset(&q, 0, sizeof q);
    q.location = MS_STR("often");
    q.raw = MS_RAW_LOCATIONS;
    assert_int_equal(count_of(store, &q), 600);
    assert_in_range(must_be_all_facts(store, "often"), 600 / FACTS_PAGE, 600 / 20);
    must_be_all_facts(store, "noted");
    /* where facts are large, bytes count */
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + sizeof text - 3, "\"}", 2);
    for (int i = 0; i < 40; i++) {
        text[10] = (char)('a' + i % 26);
        set_facts(store, "large", text);
        assert_in_range(facts_read(store, "large"), 1, 3);
    }
    for (int i = 0; i < 150; i++) {
        set_facts(store, "large", i % 2 ? "{\"b\":1}" : "{\"b\":2}");
        assert_in_range(facts_read(store, "large"), 1, FACTS_PAGE);
    }
    assert_in_range(must_be_all_facts(store, "large"), 13 + 150 / FACTS_PAGE, 43);
    must_amount();
    ms_arena_deinit(&arena);
    ms_close(store);
}

/* ---- random operations on the server and in an arena store ---- */

typedef struct facts_run {
    ms_store *store[2], *twin;
    uint64_t random;
    unsigned shipped;         /* records of facts, of both sources */
    char names[FACTS_PLACES][24];
    char text[400];
} facts_run;

/* An object of one to three members; some are removed, some names need escapes. */
static const char *random_facts(facts_run *f)
{
    static const char *const names[] = {"a", "b", "title", "caf\\u00e9", "q\\\"", ""};
    static const char *const values[] = {"null", "true", "\"text\"", "{\"in\":[1,null]}"};
    size_t at = 0, n = (size_t)(1 + test_random(&f->random) % 3);
    if (test_random(&f->random) % 40 == 0) return "{}";
    f->text[at++] = '{';
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_random(&f->random);
        at += (size_t)snprintf(f->text + at, 60, "%s\"%s%d\":", i ? "," : "",
                               names[r % 6], (int)(r >> 8) % 5);
        if ((r >> 16) % 3 == 0) at += (size_t)snprintf(f->text + at, 30, "%u",
                                                       (unsigned)(r >> 32));
        else at += (size_t)snprintf(f->text + at, 30, "%s", values[(r >> 20) % 4]);
    }
    snprintf(f->text + at, 2, "}");
    return f->text;
}

/* Ships a record of facts of one of two sources, some of them twice. */
static void ship_facts(facts_run *f, ms_store *store, const char *location)
{
    ms_record record;
    ms_error err;
    ms_arena arena;
    const ms_msg *msg;
    char facts[400];
    test_arena_init(&arena, NULL);
    memset(&record, 0, sizeof record);
    snprintf(facts, sizeof facts, "%s", random_facts(f));
    record.kind = MS_KIND_LOCATION;
    record.envelope.location = ms_str_of(location);
    record.envelope.content = ms_json(ms_str_of(facts));
    record.envelope.has_time = true;
    record.envelope.time_ns = (int64_t)++f->shipped + 1000;
    must_ok(ms_record_encode(&record, &arena, &msg, &err), &err, "encode");
    ms_str source = f->shipped % 2 ? MS_STR("source one") : MS_STR("source two");
    for (unsigned i = 0; i <= f->shipped % 5 / 4; i++)
        must_ok(ms_pg_ship_change(store, source, NULL, msg, NULL, &retired, &err), &err,
                "ship");
    set_facts(f->twin, location, facts);
    ms_arena_deinit(&arena);
}

/* Retires the messages of the last location, and so all of it: its facts are gone. */
static void retire_facts(facts_run *f, ms_store *store)
{
    ms_error err;
    ms_arena arena;
    ms_buf buf;
    ms_json_writer w;
    const char *location = f->names[FACTS_PLACES - 1];
    test_arena_init(&arena, NULL);
    (void)append_old(store, location, 1);
    assert_int_equal(retire(store, location, 2, 0, false).locations, 1);
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_iter it = ms_json_iterate(facts_of(f->twin, location, &arena));
    while (ms_json_next(&it)) {
        ms_str key;
        assert_int_equal(ms_json_string(it.key, &arena, &key), MS_OK);
        ms_json_key(&w, key);
        ms_json_put_raw(&w, MS_STR("null"));
    }
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    must_ok(ms_location_set(f->twin, ms_str_of(location), ms_buf_text(&buf), &err), &err,
            "set");
    ms_arena_deinit(&arena);
}

/* A fork at the beginning, which takes the facts, instead of a location. */
static void fork_facts(facts_run *f, ms_store *store, unsigned i, int step)
{
    char to[24];
    ms_error err;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    snprintf(to, sizeof to, "fork %d", step);
    for (int k = 0; k < 2; k++)
        must_ok(ms_fork(k ? f->twin : store, ms_str_of(f->names[i]), 0, ms_str_of(to),
                        &arena, &err), &err, "fork");
    memcpy(f->names[i], to, sizeof to);
    ms_arena_deinit(&arena);
}

static void random_step(facts_run *f, int step)
{
    ms_error err;
    uint64_t r = test_random(&f->random), seq = 0;
    ms_store *store = f->store[r % 2];
    unsigned i = (unsigned)(r >> 8) % FACTS_PLACES;
    const char *location = f->names[i], *facts;
    ms_envelope m = ms_user_message(ms_text("x"));
    switch ((r >> 16) % 32) {
    case 0:
        must_ok(ms_append(store, MS_STR("place 0"), &m, &seq, &err), &err, "append");
        must_ok(ms_note(store, seq, MS_STR("k"), ms_text("n"), &err), &err, "note");
        must_ok(ms_redact(store, seq, &err), &err, "redact");
        must_ok(ms_hide(store, seq, &err), &err, "hide");
        break;
    case 1: case 2: case 3: case 4: ship_facts(f, store, location); break;
    case 5: /* as if others had set them, who enter no facts */
        if (r >> 60 == 0) ask_sql("one", "update msgstore_record set facts = null where"
                                          " place / 1024 % 3 > 0");
        break;
    case 6:
        if (i > 0 && i < FACTS_PLACES - 1 && r >> 62 == 0) fork_facts(f, store, i, step);
        break;
    case 7: if (r >> 62 == 0) retire_facts(f, store); break;
    default:
        facts = random_facts(f);
        set_facts(store, location, facts);
        set_facts(f->twin, location, facts);
    }
}

static void facts_are_those_of_an_arena_store_after_random_steps(void **state)
{
    facts_run f;
    ms_error err;
    int with_all = 0;
    (void)state;
    memset(&f, 0, sizeof f);
    f.random = test_seed();
    for (int i = 0; i < 2; i++) f.store[i] = open_url(url_of("one", ""));
    must_ok(ms_mem_open(&f.twin, NULL, &err), &err, "open");
    for (int i = 0; i < FACTS_PLACES; i++)
        snprintf(f.names[i], sizeof f.names[i], "place %d", i);
    for (int step = 1; step <= FACTS_STEPS; step++) {
        random_step(&f, step);
        for (int i = 0; i < FACTS_PLACES && step % 50 == 0; i++) {
            ms_arena arena;
            test_arena_init(&arena, NULL);
            must_equal(f.names[i], facts_of(f.store[step / 50 % 2], f.names[i], &arena),
                       facts_of(f.twin, f.names[i], &arena));
            ms_arena_deinit(&arena);
        }
    }
    for (int i = 0; i < FACTS_PLACES; i++)
        with_all += must_be_all_facts(f.store[0], f.names[i]);
    assert_true(with_all > 0);
    must_amount();
    ask_sql("one", "delete from msgstore_retired");
    ms_close(f.twin);
    for (int i = 0; i < 2; i++) ms_close(f.store[i]);
}

static void *set_often(void *arg)
{
    static int next;
    char text[60];
    int own = __sync_fetch_and_add(&next, 1);
    ms_store *store = open_url((const char *)arg);
    for (int i = 0; i < 150; i++) {
        snprintf(text, sizeof text, "{\"c%d\":%d,\"all\":%d,\"x%d\":%s}", own, i, i,
                 (own + i) % 3, i % 2 ? "null" : "1");
        set_facts(store, "together", text);
    }
    ms_close(store);
    return NULL;
}

/* Rows are set while others read and enter all facts of those before. */
static void facts_are_whole_when_eight_clients_set_them(void **state)
{
    void *none[CLIENTS];
    ms_store *store = open_url(url_of("one", ""));
    (void)state;
    each_client(set_often, (void *)(uintptr_t)url_of("one", ""), none);
    assert_true(must_be_all_facts(store, "together") > CLIENTS * 150 / FACTS_PAGE / 2);
    assert_in_range(facts_read(store, "together"), 1, 2 * FACTS_PAGE);
    must_amount();
    ms_close(store);
}

/* Facts that were shipped alone are read as quickly, or almost. */
static void shipped_facts_are_read_from_the_newest_row_that_has_all(void **state)
{
    facts_run f;
    ms_error err;
    ms_store *store = open_url(url_of("one", ""));
    (void)state;
    memset(&f, 0, sizeof f);
    f.random = test_seed();
    must_ok(ms_mem_open(&f.twin, NULL, &err), &err, "open");
    for (int i = 0; i < 600; i++) {
        ship_facts(&f, store, "shipped");
        assert_in_range(facts_read(store, "shipped"), 1, 3 * FACTS_PAGE);
    }
    assert_in_range(must_be_all_facts(store, "shipped"), 600 / FACTS_PAGE / 3, 50);
    ms_close(f.twin);
    ms_close(store);
}

/* All facts that are damaged are passed over; a damaged record is reported by each look,
 * and what was read beside it is not entered. */
static void damage_among_facts_is_not_taken_for_the_facts(void **state)
{
    ms_error err;
    ms_arena arena;
    char text[60];
    ms_str facts;
    ms_store *store = open_url(url_of("one", ""));
    (void)state;
    test_arena_init(&arena, NULL);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "{\"k%d\":%d}", i % 9, i);
        set_facts(store, "damaged", text);
    }
    ms_str sound = facts_of(store, "damaged", &arena);
    ask_sql("one", "update msgstore_record set facts = set_byte(facts, 40,"
                   " get_byte(facts, 40) # 255) where facts is not null and location ="
                   " 'damaged'");
    must_equal("damaged", facts_of(store, "damaged", &arena), sound);
    for (int i = 0; i < 70; i++) set_facts(store, "damaged", "{\"k0\":1}");
    assert_in_range(facts_read(store, "damaged"), 1, FACTS_PAGE);

    ask_sql("one", "update msgstore_record set body = set_byte(body, 40, get_byte(body,"
                   " 40) # 255), facts = null where location = 'damaged'");
    long long before = ask_sql("one", "select count(facts) from msgstore_record");
    for (int i = 0; i < 200; i++) set_facts(store, "damaged", "{\"k0\":2}");
    assert_int_equal(ms_location_get(store, MS_STR("damaged"), &arena, &facts, &err),
                     MS_E_DAMAGED);
    must_equal("beside damage", facts, MS_STR("{\"k0\":2}"));
    assert_int_equal(ask_sql("one", "select count(facts) from msgstore_record"), before);
    assert_in_range(ms__pg_of(store)->facts_pause, 64, 256); /* few attempts */
    ms_arena_deinit(&arena);
    ms_close(store);
}

/* Tables as version 3 made them, with facts. A client of that version that is connected
 * goes on, one that opens is refused. What it has set is read, also after all facts were
 * entered. */
static void tables_of_version_3_are_migrated(void **state)
{
    ms_error err;
    ms_store *store = open_url(url_of("one", ""));
    ms_pg_desc desc = desc_of(url_of("one", ""));
    char text[60];
    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "{\"k%d\":%d}", i % 9, i);
        set_facts(store, "old", text);
    }
    ms_close(store);
    ask_sql("one", "drop index msgstore_facts; alter table msgstore_record drop column"
                   " facts; delete from msgstore_schema where version > 3");
    desc.no_create = true;
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_FOREIGN);
    assert_non_null(strstr(err.message, "version 3, this program needs 4"));
    PGconn *old = PQconnectdb(url_of("one", ""));
    PQclear(PQexec(old, "prepare a as insert into msgstore_record (seq, place, time,"
                        " bucket, kind, type, location, key, body) select seq, place +"
                        " 1024 * $1::bigint, time, bucket, kind, type, location, null,"
                        " body from msgstore_record where location = 'old' and kind = 6"
                        " order by place limit 1"));
    void *stores[CLIENTS];
    each_client(open_and_append, (void *)(uintptr_t)url_of("one", ""), stores);
    for (int i = 0; i < CLIENTS; i++) assert_null(stores[i]);
    store = open_url(url_of("one", ""));
    assert_int_equal(facts_read(store, "old"), 300);
    assert_int_equal(must_be_all_facts(store, "old"), 0);
    set_facts(store, "old", "{\"new\":1}");
    assert_in_range(facts_read(store, "old"), 1, FACTS_PAGE);
    assert_int_equal(must_be_all_facts(store, "old"), 1);
    PGresult *r = PQexec(old, "execute a(10000000)");
    assert_string_equal(PQcmdTuples(r), "1");
    PQclear(r);
    PQfinish(old);
    must_be_all_facts(store, "old");
    ask_sql("one", "delete from msgstore_record where key is null and kind = 6");
    must_be_all_facts(store, "old");
    ms_close(store);
}

#endif /* POSTGRES_FACTS_H */
