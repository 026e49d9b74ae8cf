/* [log-cursor]: cursors over segments and the tail answer like a plain array, while more
 * is appended, and step over damaged records, which they count. Cursors that are held
 * while segments are sealed are in test_twin, and beside writers in test_threads. */

#define _GNU_SOURCE
#include "log_bytes.h"

enum { LIMITS = 60, SEGMENT = 4096 };

/* ---- small messages of few names, and queries for them ---- */

static const char *const jobs[] = {"job", "job of another name", "third"};
static const char *const agents[] = {NULL, "worker_1", "worker_2", "a reviewer"};

static const struct view {
    unsigned views;
    bool everywhere;      /* all locations */
    size_t team;          /* of so many agents */
} views[] = {
    {0, true, 0},
    {MS_VIEW_TIMELINE, false, 0},
    {MS_VIEW_CONVERSATION, false, 0},
    {MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_AGENT, false, 0},
    {MS_VIEW_TEAM, false, 2},
    {MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL, false, 0},
    {MS_VIEW_CONVERSATION | MS_VIEW_AGENT, false, 0},
};

static twinned small_log(void **state)
{
    twinned x = twinned_of(log_at(SEGMENT, *(const ms_log_engine *)*state));
    x.s.log.keep_unset_times = true;
    log_open(&x.s);
    return x;
}

/* Most are of the first location. */
static void append_small(twinned *x, size_t n)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE,
                                    MS_T_OBSERVATION,  MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL,        MS_T_TEXT};
    static char text[1100];
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    while (n-- > 0) {
        size_t most = test_one_in(&x->rng, 20) ? 1000 : 60;
        memset(text, '.', sizeof text);
        snprintf(text, 12, "<#%06zu#>", x->t.count);
        ms_str said = ms_str_n(text, 10 + (size_t)test_below(&x->rng, most));
        ms_envelope m = message_of(types[test_below(&x->rng, COUNT(types))], said);
        bool other = test_one_in(&x->rng, 3);
        m.location = ms_str_of(jobs[other ? test_below(&x->rng, COUNT(jobs)) : 0]);
        m.agent_key = ms_str_of(agents[test_below(&x->rng, COUNT(agents))]);
        twin_append_both(&x->t, x->s.store, &m, 1, &opts, false);
    }
}

/* A view of a location and an agent (from 1), with the next agent in the team. */
static ms_query view_of(const struct view *v, size_t job, size_t agent, ms_str team[2])
{
    unsigned views_of = v->views != 0 ? v->views : (unsigned)MS_VIEW_TIMELINE;
    ms_query q = query_of(v->everywhere ? no_str() : ms_str_of(jobs[job]), views_of);
    team[0] = q.agent_key = ms_str_of(agents[agent]);
    team[1] = ms_str_of(agents[agent % (COUNT(agents) - 1) + 1]);
    q.agent_keys = team;
    q.n_agent_keys = v->team;
    return q;
}

static ms_query any_view(twinned *x, ms_str team[2], bool bounds)
{
    const struct view *v = &views[test_below(&x->rng, COUNT(views))];
    ms_query q = view_of(v, (size_t)test_below(&x->rng, COUNT(jobs)),
                         1 + (size_t)test_below(&x->rng, COUNT(agents) - 1), team);
    q.limit = test_one_in(&x->rng, 5) ? 0 : (size_t)test_below(&x->rng, LIMITS);
    q.reverse = test_one_in(&x->rng, 2);
    q.oldest = test_one_in(&x->rng, 3);
    if (bounds && test_one_in(&x->rng, 3))
        q.after_seq = test_below(&x->rng, x->t.count + 2);
    if (bounds && test_one_in(&x->rng, 3))
        q.before_seq = test_below(&x->rng, x->t.count + 3);
    return q;
}

/* The twin has the answer, and hides what is damaged. Without a limit all others come; with
 * one the first or the last of them, no more than the limit, and no fewer than if each
 * damaged one had come. beside: a query whose lists have the same numbers, or NULL:
 * a damaged record may be of either. */
static void ask_beside(const twinned *x, ms_store *store, const ms_query *q,
                       const ms_query *beside)
{
    static const twin_msg *whole[2000];
    static const ms_msg *got[2000];
    ms_query all = *q;
    ms_cursor it;
    size_t n, own = 0, harmed = 0, count = 0;
    all.limit = 0;
    n = twin_query(&x->t, &all, whole);
    for (size_t i = 0; i < x->t.count; i++) {
        if (!x->t.items[i]->hidden) continue;
        bool mine = twin_match(q, x->t.items[i]);
        own += mine;
        harmed += mine || (beside != NULL && twin_match(beside, x->t.items[i]));
    }
    size_t most = q->limit != 0 && q->limit < n + harmed ? q->limit : n + harmed;
    must_give(MS_OK, ms_query_open(store, q, &it, NULL));
    while ((got[count] = ms_next(&it)) != NULL) count++;
    uint64_t met = it.damaged;
    must_give(met != 0 ? MS_E_DAMAGED : MS_OK, ms_cursor_close(&it, NULL));
    if (count > n || count > most || count + harmed < most || met > harmed ||
        (q->limit == 0 && met < own) || (count < most && met == 0))
        fail_msg("views %u, limit %zu%s%s: %zu of %zu whole ones, %zu damaged, %zu met",
                 q->views, q->limit, q->oldest ? ", oldest" : "",
                 q->reverse ? ", reverse" : "", count, n, harmed, (size_t)met);
    size_t first = q->oldest != q->reverse ? 0 : n - count;
    for (size_t i = 0; i < count; i++) twin_must_match(whole[first + i], got[i], "whole");
}

static void ask(const twinned *x, ms_store *store, const ms_query *q)
{
    ask_beside(x, store, q, NULL);
}

/* Asks with every view, direction and limit; with every `stride`th of these, or, below
 * MS_TEST_SCALE=30, with a quarter as many. */
static void ask_every_view(const twinned *x, ms_store *store, size_t stride)
{
    ms_str team[2];
    if (test_scale() < 30) stride *= 4;
    for (size_t v = 0; v < COUNT(views); v++)
        for (unsigned how = 0; how < 4; how++)
            for (size_t limit = (v + how) % stride; limit <= LIMITS; limit += stride) {
                ms_query q = view_of(&views[v], 0, 1 + limit % (COUNT(agents) - 1), team);
                q.limit = limit;
                q.reverse = how & 1;
                q.oldest = (how & 2) != 0;
                ask(x, store, &q);
            }
}


/* ---- whole files ---- */

/* From the empty log on: every number of messages in segments and in the tail. */
TEST_WITH(WITH_EACH_ENGINE, the_newest_n_of_every_view_are_found_at_every_size)
{
    twinned x = small_log(state);
    ms_store *reader = log_reader(&x.s);
    ask_every_view(&x, x.s.store, 1);
    for (size_t i = 0; i < 330; i++) {
        append_small(&x, 1);
        if (i % 37 == 0) ask_every_view(&x, x.s.store, 1);
        for (int k = 0; k < 6; k++) {
            ms_str team[2];
            ms_query q = any_view(&x, team, true);
            ask(&x, x.s.store, &q);
        }
        if (i % 40 == 39) ask_every_view(&x, reader, 7);
    }
    ms_close(reader);
    twinned_close(&x);
}

/* Ten of the messages 1 to 40: newest or oldest, either way, of an agent, before one. */
static void must_find_cold(ms_store *store, int how)
{
    enum { COLD = 40 };
    uint64_t step = how & 8 ? 2 : 1, n = 0;
    ms_query q = query_of(MS_STR("cold"), how & 8 ? MS_VIEW_AGENT : MS_VIEW_TIMELINE);
    ms_cursor it;
    q.agent_key = MS_STR("odd");
    q.limit = 10;
    q.oldest = how & 1;
    q.reverse = how & 2;
    if (how & 4) q.before_seq = COLD - 1;
    uint64_t first = q.oldest ? step : (how & 4 ? COLD - 2 : COLD) - 9 * step;
    if (q.reverse) first += 9 * step;
    EACH (msg, store, &q, &it) {
        assert_int_equal(ms_seq(msg), q.reverse ? first - n * step : first + n * step);
        n++;
    }
    assert_int_equal(n, 10);
}

TEST_WITH(ON_LOGS, a_location_that_went_cold_is_found)
{
    test_store s = store_open((store_kind *)*state, NULL);
    size_t others = test_times(40000);
    for (int i = 0; i < 40; i++) {
        ms_envelope m = ms_observation(ms_text("cold"), ms_str_of(NULL));
        m.agent_key = i % 2 ? MS_STR("odd") : MS_STR("even");
        must_append(s.store, MS_STR("cold"), &m);
    }
    for (size_t i = 0; i < others; i++) {
        char name[24];
        ms_envelope m = ms_observation(ms_text("warm"), ms_str_of(NULL));
        snprintf(name, sizeof name, "warm %zu", i % 37);
        must_append(s.store, ms_str_of(name), &m);
    }
    for (int again = 0; again < 2; again++) {
        ms_query none = query_of(MS_STR("never"), 0);
        for (int how = 0; how < 16; how++) must_find_cold(s.store, how);
        assert_int_equal(count_of(s.store, &none), 0);
        store_reopen(&s);
    }
    store_close(&s);
}


/* ---- damaged records ---- */

/* The offset of each message of the file, by its place in the twin; from malloc. */
static size_t *offsets_of(const twinned *x)
{
    size_t size;
    size_t *offsets = (size_t *)twin_memory(NULL, x->t.count * sizeof offsets[0]);
    char *bytes = bytes_of(&x->s, &size);
    walk w = walk_of(bytes, size, false);
    assert_int_equal(w.n_records, x->t.count);
    for (size_t i = 0; i < w.n_records; i++) offsets[i] = (size_t)w.records[i].offset;
    walk_free(&w);
    free(bytes);
    return offsets;
}

static void count_events(void *ctx, const ms_log_event *event)
{
    ++*(size_t *)ctx;
}

/* Closes the log, flips a bit of one in `rare` messages but the newest ones, which no
 * index knows of, and opens it again. */
static void harm_some(twinned *x, uint64_t rare, size_t *events)
{
    /* of the size, the kind, the sequence number, the header's check, the body */
    static const size_t places[] = {0, 4, 9, 29, 40};
    size_t size, *offsets;
    log_close(&x->s);
    offsets = offsets_of(x);
    char *bytes = bytes_of(&x->s, &size);
    for (size_t i = 0; i + 20 < x->t.count; i++) {
        if (!test_one_in(&x->rng, rare)) continue;
        size_t at = offsets[i] + places[test_below(&x->rng, COUNT(places))];
        bytes[at] = (char)(bytes[at] ^ 1 << test_below(&x->rng, 8));
        x->t.items[i]->hidden = true;
    }
    file_patch(&x->s, 0, bytes, size);
    free(bytes);
    free(offsets);
    x->s.log.events.event = count_events;
    x->s.log.events.ctx = events;
    log_open_as(&x->s, MS_LOG_WRITE);
}

TEST_WITH(WITH_EACH_ENGINE, damaged_records_are_skipped_and_counted)
{
    for (unsigned round = 0; round < 6; round++) {
        twinned x = small_log(state);
        size_t events = 0;
        x.rng += round;
        append_small(&x, 60 + 40 * round);
        harm_some(&x, round < 3 ? 20 : 4, &events);
        ask_every_view(&x, x.s.store, 5);
        append_small(&x, 10 + 20 * round);
        ask_every_view(&x, x.s.store, 2);
        for (size_t i = 0; i < 300; i++) {
            ms_str team[2];
            ms_query q = any_view(&x, team, false);
            ask(&x, x.s.store, &q);
        }
        twinned_close(&x);
    }
}

/* All answers while a record is harmed under the open log, and when it is whole again. */
static void answers_without(twinned *x, size_t i, size_t at, const void *bytes, size_t n)
{
    size_t size;
    char *whole = bytes_of(&x->s, &size);
    file_patch(&x->s, at, bytes, n);
    x->t.items[i]->hidden = true;
    ask_every_view(x, x->s.store, 3);
    file_patch(&x->s, at, whole + at, n);
    x->t.items[i]->hidden = false;
    ask_every_view(x, x->s.store, 9);
    free(whole);
}

/* Is the newest record the last one, with no index record after it? */
static bool ends_in_the_tail(const twinned *x)
{
    size_t size, *offsets = offsets_of(x), at = offsets[x->t.count - 1];
    unsigned char *bytes = (unsigned char *)bytes_of(&x->s, &size);
    at += file_padded(file_get32(bytes + at));
    bool ends = at + 4 > size || file_get32(bytes + at) == 0;
    free(offsets);
    free(bytes);
    return ends;
}

/* A record that was verified is longer than its segment later, or than the file; one in
 * the tail has another header. */
TEST_WITH(WITH_EACH_ENGINE, records_that_change_while_the_log_is_open_are_skipped)
{
    static const unsigned char longer[] = {0x00, 0x28, 0, 0}, longest[] = {0, 0, 0, 0x0f};
    twinned x = small_log(state);
    append_small(&x, 220);
    do append_small(&x, 1);
    while (!ms_str_equal(x.t.items[x.t.count - 1]->field[MS_F_LOCATION].text,
                         ms_str_of(jobs[0])) ||
           !ends_in_the_tail(&x));
    ask_every_view(&x, x.s.store, 1);
    size_t *offsets = offsets_of(&x), newest = x.t.count - 1;
    for (size_t i = newest - 69; i < newest - 59; i += test_scale() < 30 ? 3 : 1) {
        answers_without(&x, i, offsets[i], longer, sizeof longer);
        answers_without(&x, i, offsets[i], longest, sizeof longest);
    }
    for (size_t at = 0; at < 24; at += 5)
        answers_without(&x, newest, offsets[newest] + at, "\x5b", 1);
    free(offsets);
    twinned_close(&x);
}


/* ---- names whose lists have the same number ---- */

/* Under this key the hashes of the first two locations agree in the 61 bits of a list's
 * number, and so do those of the agents in the third. (A walk of 2^31 hashes finds two.) */
static const uint64_t known_key[2] = {UINT64_C(0x5a5a5a5a5a5a5a5a),
                                      UINT64_C(0x5a5a5a5a5a5a5a5a)};
static const char *const alike[] = {"ljfhipelmfpgbpaa", "ijobpeakjjjmapaa", "room"};
static const char *const agents_alike[] = {"ldboaagacffepboa", "ofkglljpoahkdpma"};

static void entropy_known(void *ctx, void *out, size_t len) { memset(out, 0x5a, len); }

/* The highest 61 bits of a name's hash. */
static uint64_t list_of(uint64_t salt, const char *name)
{
    return file_hash(known_key, salt, name, strlen(name)) >> 3;
}

static twinned log_of_names_alike(void **state)
{
    twinned x = twinned_of(log_at(SEGMENT, *(const ms_log_engine *)*state));
    x.s.log.keep_unset_times = true;
    x.s.log.entropy.fill = entropy_known;
    log_open(&x.s);
    uint64_t room = file_hash(known_key, 0, alike[2], strlen(alike[2])) ^ 2;
    assert_true(list_of(0, alike[0]) == list_of(0, alike[1]));
    assert_true(list_of(room, agents_alike[0]) == list_of(room, agents_alike[1]));
    return x;
}

/* Appends n messages of the first name, the second (1), or both by turns (2); some in a
 * location of both agents, in which the same names take turns. */
static void append_alike(twinned *x, size_t n, unsigned which)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_GLOBAL_OBSERVATION,
                                    MS_T_FINAL, MS_T_OBSERVATION};
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    while (n-- > 0) {
        char text[20];
        unsigned name = which < 2 ? which : (unsigned)test_below(&x->rng, 2);
        snprintf(text, sizeof text, "<#%06zu#>", x->t.count);
        ms_envelope m = message_of(types[test_below(&x->rng, 4)], ms_str_of(text));
        m.location = ms_str_of(alike[test_one_in(&x->rng, 2) ? 2 : name]);
        m.agent_key = ms_str_of(agents_alike[name]);
        twin_append_both(&x->t, x->s.store, &m, 1, &opts, false);
    }
}

/* A view of one of the two names, or (limit 0 to 60) of both agents. */
static ms_query view_alike(unsigned view, unsigned name, ms_str team[2])
{
    static const unsigned kinds[] = {
        MS_VIEW_TIMELINE, MS_VIEW_CONVERSATION, MS_VIEW_GLOBAL,
        MS_VIEW_CONVERSATION | MS_VIEW_GLOBAL, MS_VIEW_AGENT, MS_VIEW_TEAM,
        MS_VIEW_TEAM, MS_VIEW_CONVERSATION | MS_VIEW_AGENT};
    ms_query q = query_of(ms_str_of(alike[view < 4 ? name : 2]), kinds[view]);
    team[0] = q.agent_key = ms_str_of(agents_alike[name]);
    team[1] = ms_str_of(agents_alike[1 - name]);
    q.agent_keys = team;
    q.n_agent_keys = view == 6 ? 2 : 1;
    return q;
}

static void ask_alike(const twinned *x, ms_store *store, bool bounds)
{
    static const size_t limits[] = {0, 1, 2, 7, 19, 20, 21, 33, 60};
    ms_str team[2], other_team[2];
    for (unsigned i = 0; i < 8 * 2 * 4 * COUNT(limits); i++) {
        unsigned view = i % 8, name = i / 8 % 2, how = i / 16 % 4;
        ms_query q = view_alike(view, name, team);
        ms_query beside = view_alike(view, 1 - name, other_team);
        q.limit = limits[i / 64];
        q.reverse = how & 1;
        q.oldest = (how & 2) != 0;
        ask_beside(x, store, &q, &beside);
        if (!bounds) continue;
        q.after_seq = beside.after_seq = x->t.count / 3;
        q.before_seq = beside.before_seq = x->t.count - x->t.count / 4;
        ask_beside(x, store, &q, &beside);
    }
}

/* Segments have one of the names, then the other one, then both. */
static void fill_alike(twinned *x)
{
    static const unsigned parts[] = {0, 1, 0, 2, 1, 0, 2, 2, 1};
    for (size_t i = 0; i < COUNT(parts); i++) append_alike(x, 60, parts[i]);
}

TEST_WITH(WITH_EACH_ENGINE, names_are_kept_apart_when_their_lists_have_one_number)
{
    twinned x = log_of_names_alike(state);
    fill_alike(&x);
    ask_alike(&x, x.s.store, true);
    ms_store *reader = log_reader(&x.s); /* each query is the first that reads a run */
    ask_alike(&x, reader, true);
    ms_close(reader);
    twinned_close(&x);
}

TEST_WITH(WITH_EACH_ENGINE, names_are_kept_apart_when_records_beside_them_are_damaged)
{
    for (unsigned round = 0; round < 3; round++) {
        twinned x = log_of_names_alike(state);
        size_t events = 0;
        x.rng += round;
        fill_alike(&x);
        harm_some(&x, 2 + 4 * round, &events);
        ask_alike(&x, x.s.store, false);
        twinned_close(&x);
    }
}

/* What is hidden at one location stays at the other. */
TEST_WITH(WITH_EACH_ENGINE, changes_are_kept_apart_when_their_lists_have_one_number)
{
    ms_error err;
    twinned x = log_of_names_alike(state);
    fill_alike(&x);
    size_t n[2], kept = 5;
    for (unsigned i = 0; i < 2; i++) {
        ms_query q = query_of(ms_str_of(alike[i]), MS_VIEW_TIMELINE);
        n[i] = count_of(x.s.store, &q);
    }
    ms_query first = query_of(ms_str_of(alike[0]), MS_VIEW_TIMELINE);
    ms_cursor it;
    uint64_t last = 0, k = 0;
    EACH (msg, x.s.store, &first, &it)
        if (++k == kept) last = ms_seq(msg);
    assert_int_equal(ms_rewind(x.s.store, first.location, last, NULL, &err), MS_OK);
    append_alike(&x, 60, 1);
    for (unsigned i = 0; i < 2; i++) {
        ms_query q = query_of(ms_str_of(alike[i]), MS_VIEW_TIMELINE);
        ms_store *reader = log_reader(&x.s);
        q.before_seq = x.t.count - 60;
        assert_int_equal(count_of(reader, &q), i == 0 ? kept : n[1]);
        ms_close(reader);
    }
    twinned_close(&x);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
