/* Fills a store, and sends every statement that a client has. plans.sh looks at the plans
 * that the server has logged.
 *
 *   build/pg/plans fill URL MESSAGES     3 large locations, the others of 500 messages
 *   build/pg/plans run URL               each statement eight times
 *   build/pg/plans waiters URL           the rate of an appender beside 50 waiters
 */

#define _GNU_SOURCE
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "msgstore.h"
#include "backends/msgstore_postgres.h"

#include <pthread.h>

enum { PER_LOCATION = 500, LARGE = 3, TIMES = 8, WAITERS = 50, TURNS = 5 };

static ms_store *store;
static ms_error err;
static ms_arena arena;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "ERROR: %s: %s\n", what, why);
    exit(1);
}

static void must(const char *what, ms_result code)
{
    if (code != MS_OK) die(what, err.message);
}

static void must_be(const char *what, ms_result code, ms_result wanted)
{
    if (code != wanted) die(what, code == MS_OK ? "it succeeds" : err.message);
}

static ms_store *open_url(const char *url)
{
    ms_pg_desc desc;
    ms_store *opened;
    memset(&desc, 0, sizeof desc);
    desc.url = url;
    desc.connections = 1;
    must("open", ms_pg_open(&opened, &desc, &err));
    return opened;
}

static ms_envelope message_of(int i)
{
    ms_envelope m = ms_user_message(ms_text("some text"));
    if (i % 2) m.agent_key = i % 4 == 1 ? MS_STR("worker") : MS_STR("planner");
    if (i % 2) m.type = MS_T_OBSERVATION;
    if (i % 3 == 0) m.turn_id = MS_STR("turn");
    return m;
}

/* Large locations are old: the newest of one stand before all others. */
static void fill(long messages)
{
    static ms_envelope m[PER_LOCATION];
    ms_append_opts opts;
    char name[40];
    memset(&opts, 0, sizeof opts);
    for (int i = 0; i < PER_LOCATION; i++) m[i] = message_of(i);
    long batches = messages / PER_LOCATION, large = batches / 2;
    for (long i = 0; i < batches; i++) {
        if (i < large) snprintf(name, sizeof name, "large/%ld", i % LARGE);
        else snprintf(name, sizeof name, "place/%ld", i);
        opts.location = ms_str_of(name);
        must("fill", ms_append_batch(store, m, PER_LOCATION, &opts, &err));
    }
}

/* ---- each statement ---- */

static uint64_t append_to(const char *location, const char *key, ms_result wanted)
{
    ms_append_opts opts;
    ms_envelope m = message_of(1);
    uint64_t seq = 0;
    memset(&opts, 0, sizeof opts);
    opts.location = ms_str_of(location);
    opts.seqs = &seq;
    if (key) m.key = ms_str_of(key);
    must_be("append", ms_append_batch(store, &m, 1, &opts, &err), wanted);
    return seq;
}

static void append_expecting(const char *location, uint64_t seq, ms_result wanted)
{
    ms_append_opts opts;
    ms_envelope m = message_of(1);
    memset(&opts, 0, sizeof opts);
    opts.location = ms_str_of(location);
    opts.expect = true;
    opts.expect_seq = seq;
    must_be("append that expects", ms_append_batch(store, &m, 1, &opts, &err), wanted);
}

/* Several messages: of one location, or of each its own; with keys or without. */
static void append_several(bool spread, bool keyed, int round)
{
    ms_append_opts opts;
    ms_envelope m[20];
    char names[20][40], keys[20][40];
    memset(&opts, 0, sizeof opts);
    for (int i = 0; i < 20; i++) {
        m[i] = message_of(i);
        snprintf(names[i], 40, "spread/%d", i);
        snprintf(keys[i], 40, "several/%d/%d/%d", spread, round, i);
        if (spread) m[i].location = ms_str_of(names[i]);
        if (keyed) m[i].key = ms_str_of(keys[i]);
    }
    if (!spread) opts.location = MS_STR("large/0");
    for (int again = 0; again <= keyed; again++)
        must("batch", ms_append_batch(store, m, 20, &opts, &err));
}

static void change(const char *location)
{
    ms_stream stream;
    ms_envelope m = message_of(1);
    ms_str facts;
    uint64_t hidden;
    uint64_t a = append_to(location, NULL, MS_OK), b = append_to(location, NULL, MS_OK);
    must("amend", ms_amend(store, b, &m, &err));
    must("note", ms_note(store, b, MS_STR("rating"), ms_text("good"), &err));
    must("hide", ms_hide(store, a, &err));
    must("redact", ms_redact(store, b, &err));
    must("hide a range", ms_hide_range(store, ms_str_of(location), b, b, &hidden, &err));
    must_be("amend", ms_amend(store, 7, &m, &err), MS_E_NOT_FOUND);
    must("facts", ms_location_set(store, ms_str_of(location), MS_STR("{\"a\":1}"), &err));
    must("facts", ms_location_get(store, ms_str_of(location), &arena, &facts, &err));
    must("begin", ms_stream_begin(&stream, store, ms_str_of(location), &m, NULL, &err));
    must("feed", ms_stream_feed(&stream, MS_STR("some text of a stream"), &err));
    must("end", ms_stream_end(&stream, NULL, NULL, &err));
}

/* Facts that are set often, beside notes, and shipped. */
static void facts_of_a_location(int round)
{
    char text[40];
    ms_str facts;
    ms_record record;
    const ms_msg *msg;
    uint64_t retired = 0;
    ms_str location = MS_STR("place/facts");
    uint64_t seq = append_to("place/facts", NULL, MS_OK);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "{\"a\":%d,\"b%d\":%d}", i, i % 9, round);
        must("note", ms_note(store, seq, MS_STR("rating"), ms_text("good"), &err));
        must("facts", ms_location_set(store, location, ms_str_of(text), &err));
        must("facts", ms_location_get(store, location, &arena, &facts, &err));
    }
    memset(&record, 0, sizeof record);
    record.kind = MS_KIND_LOCATION;
    record.envelope.location = location;
    record.envelope.content = ms_json(ms_str_of(text));
    for (int i = 0; i < 40; i++) {
        record.envelope.has_time = true;
        record.envelope.time_ns = 1000 * round + i;
        must("encode", ms_record_encode(&record, &arena, &msg, &err));
        must("ship", ms_pg_ship_change(store, MS_STR("facts of plans"), NULL, msg, NULL,
                                       &retired, &err));
    }
}

static void read_all(const ms_query *of, size_t most)
{
    ms_cursor it;
    size_t n = 0;
    must("query", ms_query_open(store, of, &it, &err));
    while (n < most && ms_next(&it) != NULL) n++;
    ms_cursor_close(&it, NULL);
}

static ms_query query_of(const char *location, size_t limit)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(location);
    q.limit = limit;
    return q;
}

/* The ways to read: newest, oldest, pages, filters, records. location "": of all. */
static void look(const char *location)
{
    ms_str team[2] = {MS_STR("worker"), MS_STR("planner")};
    for (unsigned views = 0; views <= MS_VIEW_TIMELINE; views = views ? 2 * views : 1) {
        for (int way = 0; way < 8; way++) {
            ms_query q = query_of(location, way & 4 ? 0 : 20);
            q.views = views;
            q.oldest = way & 1;
            q.reverse = way & 2;
            q.agent_key = views & MS_VIEW_AGENT ? team[0] : q.agent_key;
            q.agent_keys = views & MS_VIEW_TEAM ? team : NULL;
            q.n_agent_keys = views & MS_VIEW_TEAM ? 2 : 0;
            read_all(&q, 300);
        }
    }
    ms_query q = query_of(location, 20);
    q.turn_id = MS_STR("turn");
    read_all(&q, 300);
    q = query_of(location, 20);
    q.types = MS_BIT(MS_T_USER_MESSAGE);
    q.has_since = true;
    read_all(&q, 300);
}

static void look_raw(const char *location, uint64_t seq)
{
    for (unsigned raw = MS_RAW_AMENDS; raw <= MS_RAW_PARTS; raw *= 2) {
        ms_query q = query_of(location, 0);
        q.raw = raw;
        read_all(&q, 300);
        q.about_seq = seq;
        read_all(&q, 300);
        q.after_seq = seq;
        read_all(&q, 300);
        q.after_seq = seq - 1;
        read_all(&q, 300);
    }
}

static void look_at_one(const char *location, uint64_t seq)
{
    ms_query q = query_of(location, 0);
    const ms_msg *msg;
    ms_listing list;
    ms_list_query of;
    uint64_t place = 0;
    q.raw = MS_RAW_ALL;
    read_all(&q, 300);
    q = query_of(location, 0);
    q.by_time = true;
    q.arena = &arena;
    read_all(&q, 300);
    must("get", ms_get_by_seq(store, seq, &arena, &msg, &err));
    must_be("get", ms_get_by_seq(store, 7, &arena, &msg, &err), MS_E_NOT_FOUND);
    memset(&of, 0, sizeof of);
    of.agents = true;
    of.location = ms_str_of(location);
    must("agents", ms_list(store, &of, &arena, &list, &err));
    for (int i = 0; i < 2; i++) /* at once; then it listens, and nothing comes */
        must("wait", ms_pg_wait(store, ms_str_of(location), &place, 100, &err));
}

static void look_at_all(void)
{
    ms_stat stat;
    ms_list_query of;
    ms_listing list;
    uint64_t last;
    memset(&of, 0, sizeof of);
    must("list", ms_list(store, &of, &arena, &list, &err));
    of.limit = 20;
    must("list", ms_list(store, &of, &arena, &list, &err));
    of.prefix = MS_STR("large");
    must("list", ms_list(store, &of, &arena, &list, &err));
    must("stat", ms_store_stat(store, &stat, &err));
    must("wait", ms_wait(store, 0, 100, &last, &err));
    must("sync", ms_sync(store, &last, &err));
}

static void ship(int round)
{
    uint64_t retired = 0;
    ms_str source = MS_STR("source of plans");
    ms_pg_position at, to;
    ms_envelope m[2];
    memset(m, 0, sizeof m);
    for (int i = 0; i < 2; i++) {
        m[i] = message_of(i);
        m[i].location = i ? MS_STR("large/2") : MS_STR("shipped");
        m[i].seq = (uint64_t)round * 2 + (uint64_t)i + 1;
    }
    must("position", ms_pg_ship_begin(store, source, &at, &err));
    for (int again = 0; again < 2; again++)
        must("ship", ms_pg_ship(store, source, NULL, m, 2, &retired, &err));
    ms_envelope changed = m[1];
    changed.flags = MS_FLAG_AMENDED;
    changed.content = ms_text("changed");
    const ms_msg *before, *after;
    must("encode", ms_encode(&m[1], &arena, &before, &err));
    must("encode", ms_encode(&changed, &arena, &after, &err));
    must("look", ms_pg_ship_look(store, source, before, &err));
    must("change", ms_pg_ship_change(store, source, NULL, after, before, &retired, &err));
    to = at;
    to.message = m[1].seq;
    must("position", ms_pg_ship_end(store, source, &at, &to, &err));
    must("ship", ms_pg_ship(store, source, &to, m, 2, &retired, &err));
}

/* As a shipper of a compacted log: a key goes to a later message; facts are compared. */
static void ship_compacted(int round)
{
    uint64_t retired = 0, earlier = 0;
    ms_str source = MS_STR("compacted, of plans"), *texts;
    ms_envelope m = message_of(round);
    const ms_msg *msg;
    size_t n;
    m.location = MS_STR("large/1");
    m.key = MS_STR("key of plans");
    for (int i = 0; i < 2; i++) {
        char text[40];
        snprintf(text, sizeof text, "message %d of round %d", i, round);
        m.content = ms_text(text);
        m.seq = (uint64_t)(10 * round + 2 * i + 1);
        must_be("ship", ms_pg_ship(store, source, NULL, &m, 1, &retired, &err),
                round + i > 0 ? MS_E_CONFLICT : MS_OK);
        if (round + i == 0) continue;
        must("encode", ms_encode(&m, &arena, &msg, &err));
        for (earlier = 0; earlier == 0;) /* first it is looked for */
            must("key", ms_pg_ship_free(store, source, msg, &earlier, &err));
        must("key", ms_pg_ship_free(store, source, msg, &earlier, &err));
        must("ship", ms_pg_ship(store, source, NULL, &m, 1, &retired, &err));
    }
    must("facts", ms_pg_ship_facts(store, MS_STR("facts of plans"), MS_STR("place/facts"),
                                   &arena, &texts, &n, &err));
    if (n != 40 * ((size_t)round + 1)) die("facts", "other ones are shipped");
}

/* Ships a change of the first message of ship_compacted, or facts. */
static void ship_record(ms_kind kind, const char *location, ms_value content)
{
    uint64_t retired = 0;
    ms_record record;
    const ms_msg *change, *msg;
    ms_envelope m = message_of(0);
    memset(&record, 0, sizeof record);
    record.kind = kind;
    record.envelope.location = ms_str_of(location);
    record.envelope.content = content;
    record.envelope.has_time = true;
    record.envelope.time_ns = 1;
    if (kind == MS_KIND_NOTE) record.envelope.type_name = MS_STR("rating");
    must("encode", ms_record_encode(&record, &arena, &change, &err));
    m.location = MS_STR("shipped");
    m.seq = 1;
    must("encode", ms_encode(&m, &arena, &msg, &err));
    must("ship", ms_pg_ship_change(store, MS_STR("source of plans"), NULL, change,
                                   kind == MS_KIND_NOTE ? msg : NULL, &retired, &err));
}

static void keep_numbers(int round)
{
    ms_append_opts opts;
    ms_envelope m = message_of(1);
    ms_stat stat;
    memset(&opts, 0, sizeof opts);
    must("stat", ms_store_stat(store, &stat, &err));
    opts.location = MS_STR("kept");
    opts.keep_seq = true;
    m.seq = stat.last_seq + 5 + (uint64_t)round;
    must("keep", ms_append_batch(store, &m, 1, &opts, &err));
}

static void retire(void)
{
    ms_pg_retire_desc d;
    ms_pg_retire_report report;
    ms_envelope m = message_of(1);
    m.has_time = true;
    m.time_ns = 1;
    for (int i = 0; i < 3; i++)
        must("append", ms_append(store, MS_STR("retired/1"), &m, NULL, &err));
    m.time_ns = 3;
    must("append", ms_append(store, MS_STR("retired/1"), &m, NULL, &err));
    memset(&d, 0, sizeof d);
    d.prefix = MS_STR("retired/");
    d.before_ns = 2;
    for (int dry = 1; dry >= 0; dry--) {
        d.dry_run = dry != 0;
        must("retire", ms_pg_retire(store, &d, &report, &err));
        if (report.messages != 3) die("retire", "it finds other messages");
    }
}

static void run(void)
{
    for (int i = 0; i < TIMES; i++) {
        char key[40];
        snprintf(key, sizeof key, "key %d", i);
        uint64_t seq = append_to("large/1", NULL, MS_OK);
        append_expecting("large/1", seq, MS_OK);
        append_expecting("large/1", seq, MS_E_CONFLICT);
        append_to("large/1", key, MS_OK);
        append_to("large/1", key, MS_OK);
        for (int how = 0; how < 4; how++) append_several(how & 1, how & 2, i);
        change("place/changed");
        change("large/2");
        facts_of_a_location(i);
        ship(i);
        ship_compacted(i);
        ship_record(MS_KIND_NOTE, "shipped", ms_text("")); /* erased: is it there? */
        seq = append_to("large/0", NULL, MS_OK);
        look("large/0");
        look("place/changed");
        look_raw("large/0", seq);
        look_raw("large/2", seq);
        look_at_one("place/changed", seq);
        look("");
        look_at_all();
        keep_numbers(i);
        retire();
        ship_record(MS_KIND_LOCATION, "retired/2", ms_json(MS_STR("{\"a\":1}")));
        must("leave out", store->backend->leave_out(store, seq, &err));
        ms_arena_reset(&arena);
    }
}

/* ---- waiters ---- */

static volatile bool ended;

static void *wait_on(void *arg)
{
    ms_store *mine = open_url((const char *)arg);
    ms_error no;
    uint64_t place = 0;
    while (!ended) (void)ms_pg_wait(mine, MS_STR("quiet"), &place, 2000, &no);
    ms_close(mine);
    return NULL;
}

static double rate(double seconds)
{
    ms_envelope m = message_of(1);
    long n = 0;
    int64_t start = ms__pg_system_time(), end = start + (int64_t)(seconds * 1e9);
    for (; ms__pg_system_time() < end; n++)
        must("append", ms_append(store, MS_STR("busy"), &m, NULL, &err));
    return (double)n * 1e9 / (double)(ms__pg_system_time() - start);
}

static int by_value(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static void waiters(const char *url)
{
    double ratio[TURNS];
    pthread_t threads[WAITERS];
    for (int turn = 0; turn < TURNS; turn++) {
        double alone = rate(2);
        ended = false;
        for (int i = 0; i < WAITERS; i++)
            pthread_create(&threads[i], NULL, wait_on, (void *)(uintptr_t)url);
        ms__pg_nap(1500); /* they are connected, and look seldom */
        double beside = rate(2);
        ended = true;
        for (int i = 0; i < WAITERS; i++) pthread_join(threads[i], NULL);
        ratio[turn] = beside / alone;
        printf("turn %d: %.0f appends a second, %.0f beside %d waiters\n", turn, alone,
               beside, WAITERS);
    }
    qsort(ratio, TURNS, sizeof *ratio, by_value);
    printf("waiters: %.2f of the rate alone (%.2f to %.2f)\n", ratio[TURNS / 2], ratio[0],
           ratio[TURNS - 1]);
    if (ratio[TURNS / 2] < 0.6) die("waiters", "they slow the appender down");
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    store = open_url(argv[2]);
    if (strcmp(argv[1], "fill") == 0 && argc > 3) fill(atol(argv[3]));
    else if (strcmp(argv[1], "run") == 0) run();
    else if (strcmp(argv[1], "waiters") == 0) waiters(argv[2]);
    else return 2;
    ms_arena_deinit(&arena);
    ms_close(store);
    return 0;
}
