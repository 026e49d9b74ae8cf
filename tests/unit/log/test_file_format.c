/* [file-format]: every byte that the library writes is walked by the words of the essay;
 * files that are built by the essay are read; kept files of tests/golden are, too.
 *
 *     test_file_format --write [FOLDER] makes the files of tests/golden anew
 */

#define _GNU_SOURCE
#include "log_bytes.h"


/* ---- what the library writes ---- */

static void must_parse(const twinned *x)
{
    size_t size;
    char *bytes = bytes_of(&x->s, &size);
    walk w = walk_of(bytes, size, false);
    walk_must_equal(&w, &x->t);
    checkpoint best = newest_checkpoint(&w);
    uint64_t below = 0;
    assert_true(best.end <= w.end && best.seq <= w.last_seq);
    for (size_t i = 0; i < w.segments.n; i++)
        if (w.segments.items[i].offset < best.end) below = w.segments.items[i].offset;
    assert_int_equal(best.segment, below);
    for (size_t i = 0; i < w.n_records; i++)
        if (w.records[i].kind == FILE_KIND_MESSAGE)
            assert_int_equal(w.records[i].offset < best.end, w.records[i].seq <= best.seq);
    walk_free(&w);
    free(bytes);
}

/* Every record and every index record, after appends, a sync, an opening, a rewrite. */
TEST_WITH(ON_LOGS, the_bytes_are_as_the_essay_has_them)
{
    twinned x = twinned_open((store_kind *)*state);
    twin next;
    must_parse(&x);
    for (int round = 0; round < 8; round++) {
        twinned_fill(&x, 80);
        must_parse(&x);
        if (round % 2) must_give(MS_OK, ms_sync(x.s.store, NULL, NULL));
        must_parse(&x);
        store_reopen(&x.s);
        must_parse(&x);
    }
    ms_keep keep = {.newest = 50};
    twin_init(&next);
    twin_copy(&next, &x.t, &keep);
    must_give(MS_OK, ms_log_rewrite(x.s.store, &x.s.log, true, &keep, NULL, NULL));
    twin_deinit(&x.t);
    x.t = next;
    must_parse(&x);
    twinned_close(&x);
}


/* ---- files built by hand ---- */

/* A reader and a writer of the file find the same messages; then it goes on. */
static void must_read_built(const built *b, const char *want)
{
    test_store s = built_store(b);
    snapshot before = take(&s);
    log_open(&s);
    must_tell(s.store, want);
    must_give(MS_OK, ms_selfcheck(s.store, NULL));
    log_close(&s);
    nothing_changed("a file built by hand", &s, &before);
    for (int i = 0; i < 3; i++) {
        log_open_as(&s, MS_LOG_WRITE);
        must_give(MS_OK, ms_selfcheck(s.store, NULL));
        if (i == 0) must_tell(s.store, want);
        append_text(s.store, "and more");
        log_close(&s);
    }
    store_close(&s);
}

TEST(a_file_built_by_hand_is_read)
{
    static built b;
    const ms_msg *msg;
    int64_t time;
    built_begin(&b);
    must_read_built(&b, "");
    built_message(&b, MS_T_TASK, MS_FLAG_COMMIT, 1, SECONDS(1.5), "job", NULL,
                  ms_text("one"));
    built_message(&b, MS_T_OBSERVATION, 0, 2, INT64_MIN, "job", "w1",
                  ms_json(MS_STR("[2]")));
    built_message(&b, MS_T_FINAL, MS_FLAG_COMMIT, 7, SECONDS(2.5), "other", "w1",
                  ms_text("seven"));
    must_read_built(&b, "1 one, 2 [2], 7 seven");
    built_mark(&b);
    must_read_built(&b, "1 one, 2 [2], 7 seven");

    test_store s = built_store(&b);
    log_open(&s);
    ms_log_info info = log_info_of(s.store);
    assert_memory_equal(info.id, "an id of 16 byte", 16);
    assert_true(info.created_ns == SECONDS(1700000000));
    assert_int_equal(info.end, b.len);
    must_give(MS_OK, ms_get_by_seq(s.store, 2, NULL, &msg, NULL));
    assert_true(ms_content(msg).json && !ms_time(msg, &time));
    assert_true(ms_str_equal(test_agent_key(msg), MS_STR("w1")));
    assert_int_equal(ms_type_of(msg), MS_T_OBSERVATION);
    must_give(MS_OK, ms_get_by_seq(s.store, 7, NULL, &msg, NULL));
    assert_true(ms_time(msg, &time) && time == SECONDS(2.5));
    ms_query q = query_of(MS_STR("job"), 0);
    assert_int_equal(count_of(s.store, &q), 2);
    store_close(&s);
}

TEST(an_append_is_not_shown_when_its_commit_is_missing)
{
    static built b;
    built_begin(&b);
    built_text(&b, MS_FLAG_COMMIT, 1, "one");
    built_text(&b, 0, 2, "two");
    must_read_built(&b, "1 one");
    built_text(&b, 0, 3, "three");
    must_read_built(&b, "1 one");
    built_text(&b, MS_FLAG_COMMIT, 4, "four");
    must_read_built(&b, "1 one, 2 two, 3 three, 4 four");
}

/* Of another file, of another place, with a wrong check. */
TEST(a_record_is_not_shown_when_it_is_of_another_file_or_place)
{
    static built b;
    for (int i = 0; i < 3; i++) {
        unsigned char id[16];
        built_begin(&b);
        memcpy(id, b.bytes + 24, 16);
        if (i == 0) id[15] ^= 1;
        built_text(&b, MS_FLAG_COMMIT, 1, "one");
        unsigned char *r = b.bytes + b.len;
        uint64_t at = b.len + (i == 1 ? 8 : 0);
        built_text(&b, MS_FLAG_COMMIT, 2, "two");
        file_put32(r + FILE_AT_CHECK, file_check(id, at, r) ^ (i == 2 ? 0x12345678u : 0));
        must_read_built(&b, "1 one");
    }
}

/* A copy notes numbers that it left out. */
TEST(the_number_of_a_gap_is_not_given_again)
{
    static built b;
    ms_stat stat;
    built_begin(&b);
    built_text(&b, MS_FLAG_COMMIT, 1, "one");
    built_message(&b, MS_T_NONE, MS_FLAG_COMMIT, 5, 3, "job", NULL, ms_text(NULL));
    must_read_built(&b, "1 one");
    test_store s = built_store(&b);
    log_open(&s);
    must_give(MS_OK, ms_store_stat(s.store, &stat, NULL));
    assert_int_equal(stat.last_seq, 1);
    log_close(&s);
    log_open_as(&s, MS_LOG_WRITE);
    assert_int_equal(append_text(s.store, "six"), 6);
    store_close(&s);
}

static void built_unknown(built *b, unsigned kind, uint64_t seq)
{
    memcpy(b->bytes + b->len + FILE_HEADER, "whatever this is, it has a length", 33);
    built_record(b, kind, 200, MS_FLAG_COMMIT, seq, 5, 33);
}

TEST(unknown_kinds_are_skipped_below_128_and_refused_from_there)
{
    static built b;
    built_begin(&b);
    file_put32(b.bytes + 16, 0xffffffff);         /* compatible flags */
    file_put32(b.bytes + 52, file_crc(0, b.bytes, 52));
    built_text(&b, MS_FLAG_COMMIT, 1, "one");
    built_unknown(&b, 100, 1);
    built_text(&b, MS_FLAG_COMMIT, 2, "two");
    must_read_built(&b, "1 one, 2 two");
    built_unknown(&b, 200, 2);
    built_text(&b, MS_FLAG_COMMIT, 3, "three");
    for (int marked = 0; marked < 2; marked++) {
        test_store s = built_store(&b);
        must_refuse("an unknown kind", &s, MS_LOG_READ, MS_E_FOREIGN, MS_E_FOREIGN);
        must_refuse("an unknown kind", &s, MS_LOG_WRITE, MS_E_FOREIGN, MS_E_FOREIGN);
        store_close(&s);
        built_mark(&b);
    }
}

/* In all modes, by every kind of opening, by verify; the message names the cause. */
static void must_refuse_format(const char *what, test_store *s, const char *part)
{
    ms_log_report report;
    ms_error err;
    must_be_foreign(what, s, MS_E_FOREIGN);
    for (int opening = 0; opening <= 3; opening++) {
        s->log.opening = opening < 3 ? (ms_log_opening)opening : MS_OPEN_NORMAL;
        must_give(MS_E_FOREIGN, opening < 3 ? log_try(s, MS_LOG_READ, &err)
                                            : ms_log_verify(&s->log, &report, &err));
        if (strstr(err.message, part) == NULL) fail_msg("%s: \"%s\"", what, err.message);
    }
}

/* Another version, and what this one may not ignore, with checks that fit. */
TEST(another_format_is_refused)
{
    static const struct { const char *name, *part; size_t at; uint32_t value; } rows[] = {
        {"version 4", "has version 4, this library reads version 3", 8, 4},
        {"version 2", "has version 2, of msgstore 0.2.0: ", 8, 2},
        {"version 1", "has version 1, this library reads version 3", 8, 1},
        {"version 0", "version 0", 8, 0},
        {"version of the future", "version", 8, 0x01000000},
        {"incompatible flag 0", "flag", 20, 1},
        {"incompatible flag 31", "flag", 20, UINT32_C(1) << 31},
        {"another place of the first record", "4096", 12, 4096},
        {"another kind of check", "2", 48, 2},
    };
    test_store s = closed_log();
    size_t size;
    unsigned char *bytes = (unsigned char *)bytes_of(&s, &size);
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t old = file_get32(bytes + rows[i].at);
        file_put32(bytes + rows[i].at, rows[i].value);
        file_put32(bytes + 52, file_crc(0, bytes, 52));
        file_replace(&s, bytes, size);
        must_refuse_format(rows[i].name, &s, rows[i].part);
        file_put32(bytes + rows[i].at, old);
    }
    file_put32(bytes + 52, file_crc(0, bytes, 52));
    file_replace(&s, bytes, size);
    log_open_as(&s, MS_LOG_WRITE);
    must_have(s.store, 100);
    free(bytes);
    store_close(&s);
}


/* ---- kept files ----
 * The files in tests/golden are of this version, and later versions read them: they are
 * not changed once it is released. What is in them follows from a number; these functions
 * must not change either. version1.msl is of a version that never was released, and is
 * refused, and so is version2.msl, of 0.2.0. */

static uint64_t golden_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static ms_envelope golden_message(uint64_t *state, char text[400])
{
    static const char *const locations[] = {"job_1", "job_2", "caf\xc3\xa9"};
    static const char *const agents[] = {NULL, "planner", "worker"};
    ms_type type = (ms_type)(1 + golden_next(state) % 24);
    size_t len = (size_t)(golden_next(state) % 300);
    for (size_t i = 0; i < len; i++) text[i] = (char)('a' + (i + type) % 26);
    text[len] = '\0';
    ms_envelope m = message_of(type, ms_str_n(text, len));
    m.location = ms_str_of(locations[golden_next(state) % 3]);
    m.agent_key = ms_str_of(agents[golden_next(state) % 3]);
    m.has_time = golden_next(state) % 4 != 0;
    m.time_ns = m.has_time ? (int64_t)(golden_next(state) % 1000) * 250000000 : 0;
    if (golden_next(state) % 5 == 0) m.turn_id = MS_STR("turn");
    if (golden_next(state) % 5 == 0) m.extra = MS_STR("{\"a\":[1.50,null]}");
    if (golden_next(state) % 7 == 0) m.role = MS_ROLE_DEVELOPER;
    return m;
}

typedef struct golden {
    const char *name;
    uint64_t seed;
    size_t segment;
    size_t runs, each;        /* openings, and appends in each of them */
    bool torn;                /* each run ends in the middle of an append */
    size_t newest;            /* rewritten at the end with this rule; 0: not */
} golden;

static const golden goldens[] = {
    {"plain.msl", 1, 0, 1, 60, false, 0},
    {"segments.msl", 2, 1024, 3, 60, false, 0},
    {"torn.msl", 3, 4096, 4, 25, true, 0},
    {"gaps.msl", 4, 1024, 2, 90, false, 60},
};

/* A run of single messages and pairs, to the twin and, where there is one, to a store. */
static void golden_run(const golden *g, uint64_t *state, twin *t, ms_store *store)
{
    for (size_t i = 0; i < g->each; i++) {
        char text[2][400], key[24];
        ms_envelope m[2];
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        m[0] = golden_message(state, text[0]);
        m[1] = golden_message(state, text[1]);
        snprintf(key, sizeof key, "key %zu", t->count);
        if (i % 4 == 0) m[0].key = ms_str_of(key);
        size_t n = 1 + i % 3 / 2;
        uint64_t seqs[2] = {twin_last_seq(t) + 1, twin_last_seq(t) + 2};
        if (store != NULL) twin_append_both(t, store, m, n, &opts, false);
        else twin_add(t, m, n, &opts, seqs);
    }
}

/* What is in a file. */
static void golden_content(const golden *g, twin *t)
{
    uint64_t state = g->seed;
    twin all;
    twin_init(&all);
    all.keep_unset_times = true;
    for (size_t run = 0; run < g->runs; run++) golden_run(g, &state, &all, NULL);
    ms_keep keep = {.newest = g->newest};
    twin_init(t);
    twin_copy(t, &all, &keep);
    for (size_t i = 0; i < t->count; i++) t->items[i]->size = 0;
    twin_deinit(&all);
}

static uint64_t golden_number(void *ctx)
{
    return 1000000;
}

/* Another machine each time: what was not synced is not trusted. */
static uint64_t golden_boots;

static uint64_t golden_boot(void *ctx)
{
    return ++golden_boots;
}

/* Leaves the open file as a power loss does: one more append is torn. */
static void golden_tear(test_store *s)
{
    ms_envelope m = ms_message(MS_T_FINAL,
                               ms_text("no sync has followed this append, of some two "
                                     "hundred bytes, of which the last twenty will not "
                                     "be there: the next writer finds a header that "
                                     "holds and a body that ends too early"));
    size_t size;
    must_give(MS_OK, ms_sync(s->store, NULL, NULL));
    must_append(s->store, MS_STR("job_1"), &m);
    size_t end = (size_t)log_info_of(s->store).end - 20;
    char *bytes = bytes_of(s, &size);
    assert_true(size >= end);
    log_close(s);
    file_replace(s, bytes, end);
    free(bytes);
}

/* Writes the file to a fresh folder; result: its bytes. *messages: how many it has. */
static char *golden_make(const golden *g, ms_log_engine engine, size_t *size,
                         size_t *messages)
{
    static int64_t now = SECONDS(1700000000);
    uint64_t state = g->seed;
    ms_keep keep;
    ms_stat stat;
    ms_os os = *ms_os_default();
    os.micros = os.process = golden_number;
    os.boot = golden_boot;
    os.stat = stat_without_name;
    golden_boots = 0;
    twinned x = twinned_of(log_at(g->segment, engine));
    test_store *s = &x.s;
    s->log.keep_unset_times = true;
    s->log.os = &os;
    s->log.clock = clock_at(&now);
    s->log.entropy = constant_entropy();
    s->log.events.event = NULL;
    for (size_t run = 0; run < g->runs; run++) {
        log_open_as(s, run == 0 ? MS_LOG_CREATE : MS_LOG_WRITE);
        golden_run(g, &state, &x.t, s->store);
        if (g->torn) golden_tear(s);
        else log_close(s);
    }
    if (g->newest != 0) {
        memset(&keep, 0, sizeof keep);
        keep.newest = g->newest;
        log_open_as(s, MS_LOG_WRITE);
        must_give(MS_OK, ms_log_rewrite(s->store, &s->log, true, &keep, NULL, NULL));
        log_close(s);
    }
    if (!g->torn) {
        log_open_as(s, MS_LOG_WRITE);
        uint64_t end = log_info_of(s->store).end;
        log_close(s);
        assert_int_equal(truncate(s->path, (off_t)end), 0);
    }
    char *bytes = bytes_of(s, size);
    log_open_as(s, MS_LOG_READ);
    must_give(MS_OK, ms_store_stat(s->store, &stat, NULL));
    *messages = (size_t)stat.messages;
    twinned_close(&x);
    return bytes;
}

/* The walk, a reader and writers find in the file what it was made of. */
static void must_be_golden(const golden *g, const char *bytes, size_t size)
{
    twinned x = twinned_of(log_at(4096, MS_ENGINE_AUTO));
    test_store *s = &x.s;
    ms_log_report report;
    golden_content(g, &x.t);
    x.t.keep_unset_times = s->log.keep_unset_times = true;
    assert_true(size < 131072);
    walk w = walk_of(bytes, size, g->torn);
    uint64_t dead = w.dead_end - w.end, epoch = g->newest != 0 ? 1 : g->runs;
    walk_must_equal(&w, &x.t);
    assert_int_equal(dead > 100, g->torn);
    assert_int_equal(file_get32(w.bytes + 1184), epoch);
    assert_true(g->segment == 0 ? w.segments.n == 0 : w.segments.n >= 2);
    if (g->runs == 3) assert_true(w.segments.n >= 8 && w.summaries.n >= 1);
    walk_free(&w);
    file_replace(s, bytes, size);
    must_give(MS_OK, ms_log_verify(&s->log, &report, NULL));
    assert_int_equal(report.messages, x.t.count);
    assert_int_equal(report.index_damaged, 0);
    assert_int_equal(report.torn_bytes, dead);
    s->log.events.event = NULL; /* it reports what is zeroed */
    for (int i = 0; i < 4; i++) {
        log_open_as(s, i == 0 ? MS_LOG_READ : MS_LOG_WRITE);
        twinned_equal(&x);
        for (size_t k = 0; k < x.t.count; k++) twin_must_place(&x.t, s->store, k);
        if (i != 0) golden_run(g, &(uint64_t){(uint64_t)i}, &x.t, s->store);
        twinned_equal(&x);
        ms_log_info info = log_info_of(s->store);
        assert_int_equal(info.zeroed_bytes, i == 1 ? dead : 0);
        assert_int_equal(info.damaged, 0);
        log_close(s);
        if (i != 0) must_parse(&x);
    }
    twinned_close(&x);
}

static char *golden_file(const char *name, size_t *size)
{
    char *path = scratch_file("tests/golden", name), *bytes = read_file(path, size);
    if (bytes == NULL) fail_msg("no %s", path);
    free(path);
    return bytes;
}

TEST(kept_files_are_read)
{
    for (size_t i = 0; i < COUNT(goldens); i++) {
        size_t size;
        char *bytes = golden_file(goldens[i].name, &size);
        must_be_golden(&goldens[i], bytes, size);
        free(bytes);
    }
}

/* Both engines write the bytes that were kept: what one writes is what one reads. */
TEST(the_bytes_are_those_of_the_kept_files)
{
    for (size_t i = 0; i < 2 * COUNT(goldens); i++) {
        size_t size, kept_size, messages;
        const golden *g = &goldens[i / 2];
        char *bytes = golden_make(g, i % 2 ? MS_ENGINE_MAP : MS_ENGINE_WRITE, &size,
                                  &messages);
        char *kept = golden_file(g->name, &kept_size);
        for (size_t at = 0; at < size && at < kept_size; at++)
            if (bytes[at] != kept[at]) fail_msg("%s: byte %zu differs", g->name, at);
        assert_int_equal(size, kept_size);
        free(bytes);
        free(kept);
    }
}

/* As older versions left it, with messages in it. */
TEST(a_file_of_an_older_version_is_refused)
{
    static const struct { const char *name, *part; unsigned version; } rows[] = {
        {"version1.msl", "has version 1, this library reads version 3", 1},
        {"version2.msl", "has version 2, of msgstore 0.2.0: ", 2}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        test_store s = log_at(4096, MS_ENGINE_AUTO);
        size_t size;
        char *bytes = golden_file(rows[i].name, &size);
        assert_true(size > 4096);
        assert_int_equal(file_get32((unsigned char *)bytes + 8), rows[i].version);
        file_replace(&s, bytes, size);
        must_refuse_format(rows[i].name, &s, rows[i].part);
        free(bytes);
        store_close(&s);
    }
}

static int write_goldens(const char *folder)
{
    for (size_t i = 0; i < COUNT(goldens); i++) {
        size_t size, messages;
        char *bytes = golden_make(&goldens[i], MS_ENGINE_WRITE, &size, &messages);
        char *path = scratch_file(folder, goldens[i].name);
        if (!write_file(path, bytes, size)) {
            perror(path);
            return 1;
        }
        printf("%s: %zu bytes, %zu messages\n", path, size, messages);
        free(path);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_goldens(argc > 2 ? argv[2] : "tests/golden");
    return run_all_tests(NULL, NULL);
}
