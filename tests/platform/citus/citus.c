/* The store over a Citus cluster: which operations stay on one shard, what an append costs
 * beside its statement by hand, and what a client sees while a worker is killed.
 *
 *   build/pg/citus FOLDER ROUNDS      (tests/platform/citus.sh runs it)
 *
 * FOLDER has the servers c (the coordinator), w1 and w2. PG_SERVER names
 * tests/platform/postgres/server.sh. The coordinator writes into its log each statement
 * that it sends to a shard (citus.log_remote_commands); a shard is known by the suffix of
 * its table's name. Shards of different tables for the same buckets count as one.
 */

#define _GNU_SOURCE
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "store_text.h"
#include "backends/msgstore_postgres.h"
#include "distribute.h"

#include <sys/stat.h>

static const char *folder;
static int rounds;

static const char *url_of(const char *schema)
{
    static char urls[4][400];
    static unsigned next;
    char *url = urls[next++ % 4];
    snprintf(url, sizeof urls[0],
             "host=%s/c user=test dbname=postgres options='-csearch_path=%s'", folder,
             schema);
    return url;
}

static void sql_must(const char *url, const char *sql)
{
    PGconn *conn = PQconnectdb(url);
    PQclear(PQexec(conn, "set client_min_messages = error"));
    PGresult *r = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(r);
    PQfinish(conn);
}

static ms_store *open_schema(const char *schema, uint32_t timeout_ms)
{
    ms_pg_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.url = url_of(schema);
    desc.partitions = 1;
    desc.connections = 2;
    desc.timeout_ms = timeout_ms;
    must_ok(ms_pg_open(&store, &desc, &err), &err, "open");
    return store;
}

/* A store of its own, distributed. */
static ms_store *make_schema(const char *schema)
{
    char sql[100];
    snprintf(sql, sizeof sql, "create schema %s", schema);
    sql_must(url_of("public"), sql);
    ms_close(open_schema(schema, 0));
    citus_distribute(url_of(schema));
    return open_schema(schema, 0);
}


/* ---- what is sent to shards ---- */

enum { SHARDS_MOST = 256, GROUPS_MOST = 64 };

static long shard_ids[SHARDS_MOST];
static int shard_groups[SHARDS_MOST];
static int n_shards, n_groups;

/* Reads which shards are of the same buckets. */
static void shards_read(const char *schema)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "select shardid, dense_rank() over (order by shardminvalue::int) - 1 from"
             " pg_dist_shard where logicalrelid in (select oid from pg_class where"
             " relnamespace = '%s'::regnamespace)", schema);
    PGconn *conn = PQconnectdb(url_of(schema));
    PGresult *r = PQexec(conn, sql);
    n_shards = PQntuples(r);
    n_groups = 0;
    assert_in_range(n_shards, 1, SHARDS_MOST);
    for (int i = 0; i < n_shards; i++) {
        shard_ids[i] = atol(PQgetvalue(r, i, 0));
        shard_groups[i] = atoi(PQgetvalue(r, i, 1));
        if (shard_groups[i] >= n_groups) n_groups = shard_groups[i] + 1;
    }
    assert_in_range(n_groups, 2, GROUPS_MOST);
    PQclear(r);
    PQfinish(conn);
}

static long log_size(void)
{
    char path[300];
    struct stat s;
    snprintf(path, sizeof path, "%s/c/log", folder);
    assert_int_equal(stat(path, &s), 0);
    return (long)s.st_size;
}

/* Returns the log from a byte on, from malloc. */
static char *log_since(long start)
{
    char path[300];
    long n = log_size() - start;
    char *text = (char *)malloc((size_t)n + 1);
    snprintf(path, sizeof path, "%s/c/log", folder);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, start, SEEK_SET), 0);
    assert_int_equal(fread(text, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    text[n] = '\0';
    return text;
}

typedef struct sent {
    int statements;           /* that name a shard */
    int totals;               /* of these, for the totals of all buckets */
    int groups;               /* different shards of the others */
    int two_phase;            /* PREPARE TRANSACTION */
} sent;

static int group_of(long id)
{
    for (int i = 0; i < n_shards; i++)
        if (shard_ids[i] == id) return shard_groups[i];
    return -1;
}

/* Counts in the log from a byte on. A statement may have several lines. */
static sent sent_since(long start)
{
    static const char issuing[] = "NOTICE:  issuing ", table[] = "msgstore_";
    sent s = {0, 0, 0, 0};
    bool seen[GROUPS_MOST] = {false};
    char *text = log_since(start);
    for (char *at = strstr(text, issuing); at != NULL;) {
        char *next = strstr(at + 1, issuing);
        if (next != NULL) next[-1] = '\0';
        bool named = false, totals = strstr(at, "sum(stored)") != NULL;
        s.two_phase += strncmp(at + strlen(issuing), "PREPARE TRANSACTION", 19) == 0;
        for (char *p = strstr(at, table); p != NULL; p = strstr(p, table)) {
            p += strlen(table);
            p += strspn(p, "abcdefghijklmnopqrstuvwxyz");
            int group = *p == '_' ? group_of(atol(p + 1)) : -1;
            if (group < 0) continue;
            named = true;
            s.groups += !seen[group] && !totals;
            seen[group] = seen[group] || !totals;
        }
        s.statements += named;
        s.totals += named && totals;
        at = next;
    }
    free(text);
    return s;
}


/* ---- operations ---- */

typedef enum wanted {
    ONE,                      /* stays on the location's shard */
    TOTALS,                   /* so it does, and asks for the totals of all buckets */
    SOME,                     /* asks the shards of its locations, at most five */
    ALL                       /* asks all of them, or as many as it needs */
} wanted;

typedef struct fixture {
    ms_store *store;
    ms_arena arena;
    uint64_t seq;             /* of the message that is changed */
    uint64_t gone;            /* of a hidden one */
    uint64_t last;            /* of the location */
    ms_stream stream;
    ms_error err;
} fixture;

#define PLACE MS_STR("place")

static ms_envelope text_of(const char *text, const char *key)
{
    ms_envelope m = ms_user_message(ms_text(text));
    if (key != NULL) m.key = ms_str_of(key);
    return m;
}

/* Appends n messages to a location; with keys "prefix0", ... */
static ms_result append_some(fixture *f, ms_str location, size_t n, const char *prefix)
{
    ms_envelope m[8];
    char keys[8][32];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = location;
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "%s%zu", prefix ? prefix : "", i);
        m[i] = text_of("some", prefix ? keys[i] : NULL);
    }
    return ms_append_batch(f->store, m, n, &opts, &f->err);
}

static ms_result append_expected(fixture *f, uint64_t expected)
{
    ms_envelope m = text_of("expected", NULL);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = PLACE;
    opts.expect = true;
    opts.expect_seq = expected;
    return ms_append_batch(f->store, &m, 1, &opts, &f->err);
}

static ms_result read_query(fixture *f, ms_query q)
{
    ms_cursor it;
    q.arena = &f->arena;
    ms_result code = ms_query_open(f->store, &q, &it, &f->err);
    if (code != MS_OK) return code;
    while (ms_next(&it) != NULL) continue;
    return ms_cursor_close(&it, &f->err);
}

static ms_result append_plain(fixture *f)
{
    ms_envelope m = text_of("plain", NULL);
    return ms_append(f->store, PLACE, &m, &f->last, &f->err);
}

static ms_result append_new_key(fixture *f)
{
    ms_envelope m = text_of("keyed", "a key");
    return ms_append(f->store, PLACE, &m, &f->last, &f->err);
}

static ms_result append_right(fixture *f) { return append_expected(f, f->last); }

static ms_result append_wrong(fixture *f)
{
    ms_result code = append_expected(f, f->last - 1024);
    return code == MS_E_CONFLICT ? MS_OK : code == MS_OK ? MS_E_CONFLICT : code;
}

static ms_result append_reused_key(fixture *f)
{
    ms_envelope m = text_of("another text", "a key");
    ms_result code = ms_append(f->store, PLACE, &m, NULL, &f->err);
    return code == MS_E_KEY_REUSED ? MS_OK : MS_E_CONFLICT;
}

static ms_result batch_plain(fixture *f) { return append_some(f, PLACE, 5, NULL); }
static ms_result batch_keyed(fixture *f) { return append_some(f, PLACE, 5, "batch "); }

static ms_result batch_spread(fixture *f)
{
    static const char *const places[] = {"a", "b", "c", "d", "e"};
    ms_envelope m[5];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    for (int i = 0; i < 5; i++) {
        m[i] = text_of("spread", NULL);
        m[i].location = ms_str_of(places[i]);
    }
    return ms_append_batch(f->store, m, 5, &opts, &f->err);
}

static ms_result keep_seq(fixture *f)
{
    ms_envelope m = text_of("kept", NULL);
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = PLACE;
    opts.keep_seq = true;
    m.seq = ((uint64_t)1 << 51) + 1;
    return ms_append_batch(f->store, &m, 1, &opts, &f->err);
}

static ms_result newest(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.limit = 20;
    q.reverse = true;
    return read_query(f, q);
}

static ms_result oldest(fixture *f)
{
    ms_query q = query_of(PLACE, MS_VIEW_CONVERSATION);
    q.limit = 5;
    q.oldest = true;
    return read_query(f, q);
}

static ms_result since(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.after_seq = f->seq;
    return read_query(f, q);
}

static ms_result by_time(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.by_time = true;
    return read_query(f, q);
}

static ms_result view_of_agent(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.agent_key = MS_STR("w");
    return read_query(f, q);
}

static ms_result history(fixture *f)
{
    ms_memory memory;
    ms_cursor it;
    ms_memory_init(&memory, f->store, PLACE, MS_STR("w"));
    ms_result code = ms_get_history(&memory, &it, &f->err);
    if (code != MS_OK) return code;
    while (ms_next(&it) != NULL) continue;
    return ms_cursor_close(&it, &f->err);
}

static ms_result raw(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.raw = MS_RAW_ALL;
    return read_query(f, q);
}

static ms_result raw_since(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.raw = MS_RAW_ALL;
    q.after_seq = f->seq;
    return read_query(f, q);
}

static ms_result notes_of(fixture *f)
{
    ms_query q = query_of(PLACE, 0);
    q.raw = MS_RAW_NOTES;
    q.about_seq = f->seq;
    return read_query(f, q);
}

static ms_result find(fixture *f)
{
    ms_find_query q;
    ms_finder finder;
    ms_found found;
    memset(&q, 0, sizeof q);
    q.query.location = PLACE;
    q.text = MS_STR("plain");
    ms_result code = ms_find_open(f->store, &q, &finder, &f->err);
    if (code != MS_OK) return code;
    while (ms_find_next(&finder, &found)) continue;
    return ms_find_close(&finder, &f->err);
}

static ms_result get(fixture *f)
{
    const ms_msg *msg;
    return ms_get_by_seq(f->store, f->seq, &f->arena, &msg, &f->err);
}

static ms_result get_unknown(fixture *f)
{
    const ms_msg *msg;
    ms_result code = ms_get_by_seq(f->store, f->seq + 1, &f->arena, &msg, &f->err);
    return code == MS_E_NOT_FOUND ? MS_OK : MS_E_CONFLICT;
}

static ms_result amend(fixture *f)
{
    ms_envelope m = text_of("amended", NULL);
    return ms_amend(f->store, f->seq, &m, &f->err);
}

static ms_result note(fixture *f)
{
    return ms_note(f->store, f->seq, MS_STR("rating"), ms_text("good"), &f->err);
}

static ms_result hide(fixture *f) { return ms_hide(f->store, f->gone, &f->err); }
static ms_result redact(fixture *f) { return ms_redact(f->store, f->seq, &f->err); }

static ms_result facts_set(fixture *f)
{
    return ms_location_set(f->store, PLACE, MS_STR("{\"title\":\"t\"}"), &f->err);
}

static ms_result facts_get(fixture *f)
{
    ms_str facts;
    return ms_location_get(f->store, PLACE, &f->arena, &facts, &f->err);
}

static ms_result stream(fixture *f)
{
    ms_envelope m = text_of("", NULL);
    ms_result code = ms_stream_begin(&f->stream, f->store, PLACE, &m, NULL, &f->err);
    if (code == MS_OK) code = ms_stream_feed(&f->stream, MS_STR("part"), &f->err);
    if (code == MS_OK) code = ms_stream_feed(&f->stream, ms_str_n(NULL, 0), &f->err);
    return code == MS_OK ? ms_stream_end(&f->stream, NULL, &f->arena, &f->err) : code;
}

static ms_result list(fixture *f, bool agents, ms_str location, const char *prefix)
{
    ms_list_query q;
    ms_listing listing;
    memset(&q, 0, sizeof q);
    q.agents = agents;
    q.location = location;
    q.prefix = ms_str_of(prefix);
    return ms_list(f->store, &q, &f->arena, &listing, &f->err);
}

static ms_result list_one(fixture *f) { return list(f, true, PLACE, ""); }
static ms_result list_all(fixture *f) { return list(f, false, ms_str_n(NULL, 0), ""); }
static ms_result list_prefix(fixture *f)
{
    return list(f, false, ms_str_n(NULL, 0), "pl");
}

static ms_result stat_all(fixture *f)
{
    ms_stat stat;
    return ms_store_stat(f->store, &stat, &f->err);
}

static ms_result wait_all(fixture *f)
{
    return ms_wait(f->store, UINT64_MAX >> 1, 1, NULL, &f->err);
}

static ms_result sync_all(fixture *f) { return ms_sync(f->store, NULL, &f->err); }
static ms_result read_all(fixture *f) { return read_query(f, query_of(no_str(), 0)); }

/* Shipping. */

static ms_result ship_messages(fixture *f, ms_str place, ms_str second, uint64_t seq)
{
    uint64_t retired = 0;
    ms_envelope m[2];
    for (int i = 0; i < 2; i++) {
        m[i] = text_of("shipped", NULL);
        m[i].location = i ? second : place;
        m[i].seq = seq + (uint64_t)i;
    }
    return ms_pg_ship(f->store, MS_STR("source"), NULL, m, 2, &retired, &f->err);
}

static ms_result ship_begin(fixture *f)
{
    ms_pg_position at;
    return ms_pg_ship_begin(f->store, MS_STR("source"), &at, &f->err);
}

static ms_result ship(fixture *f) { return ship_messages(f, PLACE, PLACE, 1); }
static ms_result ship_spread(fixture *f)
{
    return ship_messages(f, MS_STR("a"), MS_STR("b"), 3);
}

static ms_result ship_end(fixture *f)
{
    ms_pg_position from, to;
    memset(&from, 0, sizeof from);
    to = from;
    to.message = 2;
    return ms_pg_ship_end(f->store, MS_STR("source"), &from, &to, &f->err);
}

static ms_result ship_end_again(fixture *f)
{
    ms_pg_position from, to;
    memset(&from, 0, sizeof from);
    from.message = 2;
    to = from;
    to.message = 4;
    return ms_pg_ship_end(f->store, MS_STR("source"), &from, &to, &f->err);
}

/* A note of the source about message 1, which `ship` has shipped. */
static ms_result ship_note(fixture *f)
{
    ms_store *source;
    ms_cursor it;
    const ms_msg *message;
    ms_envelope m = text_of("shipped", NULL);
    ms_arena copies;
    test_arena_init(&copies, NULL);
    must_ok(ms_mem_open(&source, NULL, &f->err), &f->err, "open");
    must_ok(ms_append(source, PLACE, &m, NULL, &f->err), &f->err, "append");
    must_ok(ms_note(source, 1, MS_STR("rating"), ms_text("good"), &f->err), &f->err, "note");
    must_ok(ms_get_by_seq(source, 1, &copies, &message, &f->err), &f->err, "get");
    ms_query q = query_of(PLACE, 0);
    q.raw = MS_RAW_NOTES;
    must_ok(ms_query_open(source, &q, &it, &f->err), &f->err, "query");
    const ms_msg *change = ms_next(&it);
    uint64_t retired = 0;
    ms_result code = ms_pg_ship_look(f->store, MS_STR("source"), message, &f->err);
    if (code == MS_OK)
        code = ms_pg_ship_change(f->store, MS_STR("source"), NULL, change, message, &retired,
                                 &f->err);
    (void)ms_cursor_close(&it, NULL);
    ms_close(source);
    ms_arena_deinit(&copies);
    return code;
}

static ms_result wait_one(fixture *f)
{
    uint64_t place = 0;
    ms_result code = ms_pg_wait(f->store, PLACE, &place, 1, &f->err);
    return code == MS_OK ? ms_pg_wait(f->store, PLACE, &place, 1, &f->err) : code;
}

typedef struct operation {
    const char *name;
    wanted wanted;
    ms_result (*run)(fixture *f);
} operation;

static const operation operations[] = {
    {"append", ONE, append_plain},
    {"append, new key", ONE, append_new_key},
    {"append, known key", ONE, append_new_key},
    {"append, key of another message", ONE, append_reused_key},
    {"append, right expect", ONE, append_right},
    {"append, wrong expect", ONE, append_wrong},
    {"batch of a location", ONE, batch_plain},
    {"batch of a location, new keys", ONE, batch_keyed},
    {"batch of a location, known keys", ONE, batch_keyed},
    {"stream: begin, part, end", ONE, stream},
    {"newest 20", ONE, newest},
    {"oldest 5 of a conversation", ONE, oldest},
    {"messages after a number", ONE, since},
    {"messages by time", ONE, by_time},
    {"messages of an agent", ONE, view_of_agent},
    {"history", TOTALS, history},
    {"raw records", ONE, raw},
    {"raw records after a number", ONE, raw_since},
    {"notes of a message", ONE, notes_of},
    {"find in a location", ONE, find},
    {"agents of a location", ONE, list_one},
    {"get", ONE, get},
    {"amend", ONE, amend},
    {"note", ONE, note},
    {"hide", ONE, hide},
    {"redact", TOTALS, redact},
    {"facts, set", ONE, facts_set},
    {"facts, get", ONE, facts_get},
    {"wait for a location", ONE, wait_one},
    {"ship: begin", ONE, ship_begin},
    {"ship: a location", ONE, ship},
    {"ship: a location again", ONE, ship},
    {"ship: look, and a note", ONE, ship_note},
    {"ship: first end", ONE, ship_end},
    {"ship: next end", ONE, ship_end_again},
    {"ship: two locations", SOME, ship_spread},
    {"ship: two locations again", SOME, ship_spread},
    {"batch of five locations", SOME, batch_spread},
    {"get, unknown number", ALL, get_unknown},
    {"locations", ALL, list_all},
    {"locations with a prefix", ALL, list_prefix},
    {"totals", ALL, stat_all},
    {"wait", ALL, wait_all},
    {"sync", ALL, sync_all},
    {"messages of all locations", ALL, read_all},
    {"append, kept number", ALL, keep_seq},
};

/* Runs an operation, and prints a line of the table. */
static void operation_run(fixture *f, const operation *op, int *failures)
{
    long start = log_size();
    ms_arena_reset(&f->arena);
    memset(&f->err, 0, sizeof f->err);
    ms_result code = op->run(f);
    sent s = sent_since(start);
    int most = op->wanted <= TOTALS ? 1 : op->wanted == SOME ? 5 : n_groups;
    bool good = code == MS_OK && s.groups <= most && (op->wanted == ALL || s.groups > 0) &&
                (op->wanted >= TOTALS || s.totals == 0);
    printf("%-34s%6d%8d%8d%5d  %s%s\n", op->name, s.statements, s.groups, s.totals,
           s.two_phase, good ? "" : "FAIL ", code == MS_OK ? "" : f->err.message);
    fflush(stdout);
    if (!good) ++*failures;
}

static void operations_of_a_location_stay_on_its_shard(void **state)
{
    fixture f;
    int failures = 0;
    uint64_t seqs[2];
    (void)state;
    memset(&f, 0, sizeof f);
    f.store = make_schema("routing");
    shards_read("routing");
    test_arena_init(&f.arena, NULL);
    printf("%-34s%6s%8s%8s%5s  (%d shards)\n", "operation", "sent", "shards", "totals",
           "2pc", n_groups);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const operation *op = &operations[i];
        ms_envelope m = text_of("an older one", NULL);
        if (op->run == append_right || op->run == append_wrong || op->run == amend) {
            for (int k = 0; k < 2; k++)
                (void)ms_append(f.store, PLACE, &m, &seqs[k], NULL);
            f.seq = seqs[0];
            f.last = f.gone = seqs[1];
        } else if (f.seq == 0) {
            (void)ms_append(f.store, PLACE, &m, &f.seq, NULL);
        }
        operation_run(&f, op, &failures);
    }
    ms_arena_deinit(&f.arena);
    ms_close(f.store);
    if (failures) fail_msg("%d operations are not as wanted", failures);
}


/* ---- a worker is killed ---- */

enum { CLIENTS = 8, APPENDS = 60, CODES = 64 };

typedef struct client {
    pthread_t thread;
    int id;
    int stored[APPENDS];      /* 1: acknowledged; 0: may be stored */
    int errors[CODES];        /* by code */
    char text[300];           /* of the last error that cannot be repeated */
} client;

static bool may_repeat(ms_result code)
{
    return code == MS_E_UNREACHABLE || code == MS_E_BUSY;
}

/* Appends messages "client:number" to four locations. One that has a key is appended until
 * it is acknowledged. */
static void *client_run(void *arg)
{
    client *c = (client *)arg;
    ms_store *store = open_schema("kills", 20000);
    for (int i = 0; i < APPENDS; i++) {
        char text[32], key[32], place[32];
        bool keyed = i % 2 == 0;
        snprintf(text, sizeof text, "%d:%d", c->id, i);
        snprintf(key, sizeof key, "key %d:%d", c->id, i);
        snprintf(place, sizeof place, "place %d", (c->id + i) % 4);
        for (int tries = 0; tries < 10; tries++) {
            ms_error err;
            ms_envelope m = text_of(text, keyed ? key : NULL);
            ms_result code = ms_append(store, ms_str_of(place), &m, NULL, &err);
            if (code == MS_OK) c->stored[i] = 1;
            if (code == MS_OK) break;
            c->errors[(int)code < CODES ? (int)code : 0]++;
            if (!may_repeat(code))
                snprintf(c->text, sizeof c->text, "%s", err.message);
            if (!keyed) break;
        }
    }
    ms_close(store);
    return NULL;
}

static void server_must(const char *what, const char *name)
{
    char command[700];
    snprintf(command, sizeof command, "bash %s %s %s/%s", getenv("PG_SERVER"), what,
             folder, name);
    if (system(command) != 0) fail_msg("server %s %s", what, name);
}

static void nap(int ms)
{
    struct timespec t = {0, 0};
    t.tv_sec = ms / 1000;
    t.tv_nsec = (long)(ms % 1000) * 1000000;
    nanosleep(&t, NULL);
}

/* Counts how often each message is stored. */
static void count_stored(ms_store *store, int times[CLIENTS][APPENDS])
{
    memset(times, 0, CLIENTS * sizeof times[0]);
    for (int place = 0; place < 4; place++) {
        char name[32];
        ms_cursor it;
        snprintf(name, sizeof name, "place %d", place);
        const ms_query q = query_of(ms_str_of(name), 0);
        EACH (msg, store, &q, &it) {
            char text[32];
            int id, n;
            ms_str content = ms_content(msg).text;
            snprintf(text, sizeof text, "%.*s", (int)content.len, content.ptr);
            assert_int_equal(sscanf(text, "%d:%d", &id, &n), 2);
            assert_true(id >= 0 && id < CLIENTS && n >= 0 && n < APPENDS);
            times[id][n]++;
        }
    }
}

static void appends_are_stored_once_when_a_worker_is_killed(void **state)
{
    static client c[CLIENTS];
    static int times[CLIENTS][APPENDS];
    int acknowledged = 0, lost = 0, doubled = 0, errors[CODES] = {0}, final = 0;
    const char *text = "";
    uint64_t rng = test_seed();
    (void)state;
    ms_store *store = make_schema("kills");
    for (int round = 0; round < rounds; round++) {
        const char *worker = round % 2 ? "w2" : "w1";
        memset(c, 0, sizeof c);
        for (int i = 0; i < CLIENTS; i++) {
            c[i].id = i;
            assert_int_equal(pthread_create(&c[i].thread, NULL, client_run, &c[i]), 0);
        }
        nap(300 + (int)test_below(&rng, 500));
        server_must("kill", worker);
        nap((int)test_below(&rng, 1000));
        server_must("start", worker);
        for (int i = 0; i < CLIENTS; i++) pthread_join(c[i].thread, NULL);
        count_stored(store, times);
        for (int i = 0; i < CLIENTS; i++) {
            for (int n = 0; n < APPENDS; n++) {
                acknowledged += c[i].stored[n];
                lost += c[i].stored[n] && times[i][n] == 0;
                doubled += times[i][n] > 1;
            }
            for (int code = 0; code < CODES; code++) {
                errors[code] += c[i].errors[code];
                if (c[i].errors[code] && !may_repeat((ms_result)code)) final++;
            }
            if (c[i].text[0]) text = c[i].text;
        }
        sql_must(url_of("kills"), "delete from msgstore_record");
    }
    ms_close(store);
    printf("worker kills %d: acknowledged %d, lost %d, doubled %d\n", rounds,
           acknowledged, lost, doubled);
    for (int code = 0; code < CODES; code++)
        if (errors[code])
            printf("errors of %s: %d\n", ms_result_text((ms_result)code), errors[code]);
    assert_int_equal(lost, 0);
    assert_int_equal(doubled, 0);
    if (final) fail_msg("an error that no repetition follows: %s", text);
    test_tally("worker kills amid appends", (size_t)rounds);
}


/* ---- appends beside their statement by hand ---- */

enum { TURNS = 5, TURN_MS = 1500 };

typedef struct pace {
    pthread_t thread;
    unsigned id;
    ms_store *store;          /* NULL: by hand */
    PGconn *conn;
    long done;
} pace;

static int64_t pace_end;      /* of the turn, ns */

/* Appends by the statement that the store sends, prepared on a connection of its own. */
static void put_by_hand(PGconn *conn, ms_str location, const ms_msg *msg, const char *key)
{
    ms__pg_stmt p;
    p.n = 0;
    ms__pg_number(&p, MS__PG_INT4, ms_pg_bucket(location));
    ms__pg_number(&p, MS__PG_INT8, ms__pg_system_time() / 1000);
    ms__pg_number(&p, MS__PG_INT8, (int64_t)ms_size(msg));
    ms__pg_number(&p, MS__PG_INT8, ms__pg_system_time());
    ms__pg_number(&p, MS__PG_INT2, 1);
    ms__pg_text(&p, location);
    ms__pg_text(&p, ms_str_n(NULL, 0));
    ms__pg_text(&p, ms_str_n(NULL, 0));
    ms__pg_bytea(&p, ms_str_of(key));
    ms__pg_bytea(&p, ms_str_n((const char *)(const void *)msg, ms_size(msg)));
    PGresult *r = PQexecPrepared(conn, "append", p.n, p.values, p.lengths, p.formats, 1);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) fail_msg("%s", PQerrorMessage(conn));
    PQclear(r);
}

static void *pace_run(void *arg)
{
    pace *c = (pace *)arg;
    ms_arena arena;
    test_arena_init(&arena, NULL);
    for (unsigned i = c->id; ms__pg_system_time() < pace_end; i += 7, c->done++) {
        char place[32], key[40];
        ms_error err;
        const ms_msg *msg;
        ms_envelope m = text_of("what an agent has to say to another one", NULL);
        snprintf(place, sizeof place, "place %u", i % 500);
        snprintf(key, sizeof key, "%p %u", (void *)c, i);
        m.location = ms_str_of(place);
        if (c->store) {
            must_ok(ms_append(c->store, m.location, &m, NULL, &err), &err, "append");
            continue;
        }
        ms_arena_reset(&arena);
        must_ok(ms_encode(&m, &arena, &msg, &err), &err, "encode");
        put_by_hand(c->conn, m.location, msg, key);
    }
    ms_arena_deinit(&arena);
    return NULL;
}

/* Returns how many messages 8 clients append in a turn. */
static long pace_of(bool hand, unsigned turn)
{
    static const Oid types[] = {23, 20, 20, 20, 21, 25, 25, 25, 17, 17};
    static pace c[CLIENTS];
    long done = 0;
    ms_pg_desc desc;
    ms_store *store = NULL;
    ms_error err;
    memset(c, 0, sizeof c);
    memset(&desc, 0, sizeof desc);
    desc.url = url_of("pace");
    desc.partitions = 1;
    desc.connections = CLIENTS;
    if (!hand) must_ok(ms_pg_open(&store, &desc, &err), &err, "open");
    for (unsigned i = 0; i < CLIENTS; i++) {
        c[i].id = i + 1000 * turn;
        c[i].store = store;
        if (!hand) continue;
        c[i].conn = PQconnectdb(desc.url);
        PQclear(PQprepare(c[i].conn, "append", ms__pg_append_one, 10, types));
    }
    pace_end = ms__pg_system_time() + (int64_t)TURN_MS * 1000000;
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&c[i].thread, NULL, pace_run, &c[i]), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        pthread_join(c[i].thread, NULL);
        if (hand) PQfinish(c[i].conn);
        done += c[i].done;
    }
    ms_close(store);
    return done;
}

/* The median of the ratios of five pairs of turns; the machine may be busy. */
static void appends_keep_pace_with_their_statement_by_hand(void **state)
{
    double ratio[TURNS];
    long hand = 0, store = 0;
    (void)state;
    ms_close(make_schema("pace"));
    for (unsigned i = 0; i < TURNS; i++) {
        long by_hand = pace_of(true, 2 * i), by_store = pace_of(false, 2 * i + 1);
        unsigned k = i;
        double r = (double)by_store / (double)by_hand;
        for (; k > 0 && ratio[k - 1] > r; k--) ratio[k] = ratio[k - 1];
        ratio[k] = r;
        hand += by_hand;
        store += by_store;
    }
    printf("8 clients append %ld a second, by the statement by hand %ld; ratio %.2f"
           " (%.2f to %.2f)\n", store * 1000 / (TURNS * TURN_MS),
           hand * 1000 / (TURNS * TURN_MS), ratio[TURNS / 2], ratio[0], ratio[TURNS - 1]);
    assert_true(ratio[TURNS / 2] >= 0.6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_a_location_stay_on_its_shard),
        cmocka_unit_test(appends_keep_pace_with_their_statement_by_hand),
        cmocka_unit_test(appends_are_stored_once_when_a_worker_is_killed),
    };
    if (argc != 3) return 2;
    folder = argv[1];
    rounds = atoi(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
