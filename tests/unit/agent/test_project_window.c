/* ms_project: real conversations that end at any message, lists that grow, windows by
 * messages and by cost beside the slice of their turns, and how texts are counted. */

#define _GNU_SOURCE

#include "project.h"


/* ---- real conversations, ended anywhere ---- */

static trace traces[TRACES_MOST];
static size_t n_traces;

/* The messages of a trace, in the arena, which is emptied. */
static history trace_history(const trace *t)
{
    char *text = json_dumps(t->messages, JSON_COMPACT);
    assert_non_null(text);
    ms_arena_reset(&arena);
    size_t len = strlen(text);
    char *copy = (char *)ms_arena_alloc(&arena, len);
    memcpy(copy, text, len);
    free(text);
    return history_read("openai", ms_str_n(copy, len));
}

/* One window over a conversation that grows, at every end when there is time; with a
 * budget, too, unless the newest turn is larger. */
static uint64_t must_take_windows(const ms_profile *profile, const history *h,
                                  size_t newest, uint64_t *random)
{
    ms_project_opts opts = everything;
    ms_project_report report;
    ms_result code;
    uint64_t projections = 0;
    opts.newest = newest;
    opts.stable = true;
    for (size_t n = 1; n <= h->n; n++) {
        if (test_scale() < 1000 && !test_one_in(random, 3)) continue;
        opts.budget = test_one_in(random, 3) ? 500 + (size_t)test_below(random, 8000) : 0;
        ms_str body = projected(profile, &opts, h, n, &report, &code);
        bool large = opts.budget > 0 && report.newest_turn > opts.budget;
        assert_int_equal(code, large ? MS_E_TOO_LARGE : MS_OK);
        if (!large) must_accept(profile, body, h);
        assert_true(large || opts.budget == 0 || report.cost <= opts.budget);
        ms_arena_reset(&work);
        projections++;
    }
    return projections;
}

/* All windows from 1 to 40 when there is time, else some. */
TEST(conversation_is_taken_when_it_ends_anywhere)
{
    uint64_t random = test_seed(), projections = 0;
    for (size_t i = 0; i < n_traces; i++) {
        history h = trace_history(&traces[i]);
        for (size_t k = 0; k < PROFILES; k++)
            for (size_t n = 1; n <= 40; n++)
                if (test_scale() >= 1000 || test_below(&random, 1000) < test_times(25))
                    projections += must_take_windows(ms_profile_at(k), &h, n, &random);
    }
    test_tally("projections checked", projections);
}


/* ---- histories that grow ---- */

/* The messages of a list. */
typedef struct sent {
    ms_str items[1200];
    size_t n;
} sent;

static void sent_set(sent *s, ms_str body)
{
    ms_json_iter it = ms_json_iterate(list_in(body));
    for (s->n = 0; ms_json_next(&it); s->n++) {
        assert_true(s->n < COUNT(s->items));
        s->items[s->n] = it.value;
    }
}

/* With how many equal messages two lists begin. */
static size_t sent_alike(const sent *a, const sent *b)
{
    size_t i = 0;
    while (i < a->n && i < b->n && ms_str_equal(a->items[i], b->items[i])) i++;
    return i;
}

/* What this list becomes is kept, while the next one is projected. */
static void sent_keep(sent *before, const sent *now)
{
    ms_arena free_one = kept;
    *before = *now;
    kept = work;
    work = free_one;
    ms_arena_reset(&work);
}

/* Where the last turn of a list begins; a guess too early asks for less. The text that
 * ends a list is of no turn. */
static size_t last_turn(const sent *s)
{
    size_t i = s->n > 0 ? s->n - 1 : 0;
    if (i > 0 && has_text(s->items[i], "(Continue.)")) i--;
    while (i > 0 && (has_text(s->items[i], "{\"role\":\"tool\"") ||
                     has_text(s->items[i], "\"tool_result\"") ||
                     has_text(s->items[i], "\"functionResponse\"") ||
                     has_text(s->items[i], "\"tool-return\"")))
        i--;
    return i;
}

static void only_the_end_changes(const ms_profile *profile, const history *h)
{
    static sent now, before;
    bool begun = false; /* till then start_text may stand in */
    before.n = 0;
    for (size_t n = 1; n <= h->n; n++) {
        size_t turn = last_turn(&before);
        sent_set(&now, projected(profile, &everything, h, n, NULL, NULL));
        size_t same = sent_alike(&now, &before);
        if (begun && same < turn)
            fail_msg("%s, message %zu: %zu of %zu messages stand, the last turn begins "
                     "at %zu", profile->name, n, same, before.n, turn);
        begun = begun || ms_role_of(h->msgs[n - 1]) != MS_ROLE_SYSTEM;
        sent_keep(&before, &now);
    }
}

/* Without a window, one more message changes nothing before the last turn. */
TEST(list_changes_at_its_end_alone_when_a_message_comes)
{
    uint64_t random = test_seed();
    for (size_t i = 0; i < n_traces; i++) {
        if (json_array_size(traces[i].messages) > 120) continue;
        if (test_below(&random, 1000) >= test_times(100)) continue;
        history h = trace_history(&traces[i]);
        for (size_t k = 0; k < PROFILES; k++) only_the_end_changes(ms_profile_at(k), &h);
    }
}


/* ---- windows ---- */

/* A history made of turns, so that a test knows where each begins and what it costs. */
typedef struct turns {
    history h;
    size_t begin[64];     /* the first message of each; after the last one, h.n */
    size_t n, pinned;     /* messages of system text at the start */
} turns;

static void turns_put(turns *t, ms_envelope m, uint64_t *random)
{
    if (m.type != MS_T_ACTION)
        m.content = text_of_size(1 + (size_t)test_below(random, 60));
    add(&t->h, m);
}

/* One more turn: a user's text, or the assistant's with calls. Returns whether the next one
 * may be the assistant's. */
static bool turns_add(turns *t, bool user, uint64_t *random)
{
    size_t calls = user ? 0 : (size_t)test_below(random, 4);
    t->begin[t->n++] = t->h.n;
    if (user) turns_put(t, ms_user_message(ms_text("")), random);
    else if (calls == 0 || test_one_in(random, 2))
        turns_put(t, ms_assistant_message(ms_text("")), random);
    for (size_t i = 0; i < 2 * calls; i++) {
        char id[32];
        snprintf(id, sizeof id, "id_%zu_%zu", t->n, i % calls);
        turns_put(t, i < calls ? action(id, "tool") : observation(id, ms_text("")), random);
    }
    t->begin[t->n] = t->h.n;
    return user || calls > 0;
}

static turns turns_make(uint64_t *random)
{
    turns t = {.h = history_of(600), .pinned = (size_t)test_below(random, 3)};
    for (size_t i = 0; i < t.pinned; i++)
        turns_put(&t, ms_message(MS_T_DIRECTOR_CONTEXT, ms_text("")), random);
    t.begin[0] = t.h.n;
    bool assistant = true;
    for (size_t n = 1 + (size_t)test_below(random, 40); t.n < n;)
        assistant = turns_add(&t, !assistant || test_one_in(random, 3), random);
    return t;
}

/* Messages, or bytes of text and of names, from one message to another. */
static size_t turns_much(const turns *t, size_t from, size_t to, bool cost)
{
    size_t much = 0;
    for (size_t i = from; i < to; i++) {
        const ms_envelope *m = &t->h.items[i];
        much += !cost ? 1 : m->content.text.len + m->args.text.len + m->tool.len;
    }
    return much;
}

/* The first turn of a window of `most`, moved on to the next multiple of `step`; n: not
 * even the last one fits. */
static size_t turns_start(const turns *t, size_t most, size_t step, bool cost)
{
    size_t pinned = turns_much(t, 0, t->pinned, cost);
    size_t all = turns_much(t, t->pinned, t->h.n, cost), need, moved, first = t->n;
    if (cost) most = most > pinned ? most - pinned : 0;
    if (all <= most) return 0;
    need = all - most;
    moved = step > all ? all : (need + step - 1) / step * step;
    for (size_t i = t->n; i-- > 0;)
        if (turns_much(t, t->pinned, t->begin[i], cost) >= moved) first = i;
    if (first < t->n) return first;
    for (size_t i = t->n; i-- > 0;)
        if (turns_much(t, t->pinned, t->begin[i], cost) >= need) first = i;
    return first;
}

/* The narrower of both bounds. */
static size_t window_start(const turns *t, const ms_project_opts *opts)
{
    size_t step = opts->step > 0 ? opts->step : 1, first = 0, dear = 0;
    if (opts->newest > 0) first = turns_start(t, opts->newest, step, false);
    if (first == t->n) first = t->n - 1;
    if (opts->budget > 0) dear = turns_start(t, opts->budget, step, true);
    return dear > first ? dear : first;
}

/* What is sent of the window is what is made of the slice alone. A counter is asked once
 * for each text. */
static void window_must_be(const ms_profile *profile, const ms_project_opts *opts,
                           const turns *t, size_t first)
{
    history slice = t->h;
    ms_project_report report;
    size_t from = t->begin[first];
    slice.msgs = (const ms_msg **)ms_arena_alloc(&work, (t->h.n + 1) * sizeof *slice.msgs);
    slice.n = 0;
    for (size_t i = 0; i < t->h.n; i++)
        if (i < t->pinned || i >= from) slice.msgs[slice.n++] = t->h.msgs[i];
    bytes_counted = 0;
    ms_str window = projected(profile, opts, &t->h, t->h.n, &report, NULL);
    ms_str alone = projected_all(profile, &everything, &slice);
    must_accept(profile, window, &t->h);
    if (!ms_str_equal(window, alone)) {
        print_history(&t->h);
        print_text("window", window);
        print_text("slice", alone);
        fail_msg("%s, newest %zu, budget %zu, step %zu: not the same", profile->name,
                 opts->newest, opts->budget, opts->step);
    }
    assert_int_equal(report.left_out, from - t->pinned);
    assert_int_equal(report.first_seq, from + 1);
    if (opts->count != count_bytes) return;
    assert_int_equal(bytes_counted, turns_much(t, 0, t->h.n, true));
    size_t cost = turns_much(t, 0, t->pinned, true);
    assert_int_equal(report.cost, cost + turns_much(t, from, t->h.n, true));
    assert_int_equal(report.newest_turn,
                     cost + turns_much(t, t->begin[t->n - 1], t->h.n, true));
}

/* The newest turn alone takes more than there is. */
static void must_be_too_large(const ms_profile *profile, const ms_project_opts *opts,
                              const turns *t)
{
    ms_project_report report;
    ms_result code;
    ms_str body = projected(profile, opts, &t->h, t->h.n, &report, &code);
    assert_int_equal(code, MS_E_TOO_LARGE);
    assert_int_equal(body.len, 0);
    assert_int_equal(report.newest_turn,
                     turns_much(t, 0, t->pinned, true) +
                         turns_much(t, t->begin[t->n - 1], t->h.n, true));
}

/* The newest messages, or a budget, each with a step; or both. */
TEST(window_is_the_slice_of_its_turns)
{
    static const size_t huge[] = {SIZE_MAX / 2, SIZE_MAX - 3, SIZE_MAX - 1, SIZE_MAX};
    uint64_t random = test_seed();
    size_t large = 0, fits = 0;
    for (size_t i = test_times(800); i-- > 0; (void)reset(NULL)) {
        turns t = turns_make(&random);
        ms_project_opts opts = everything;
        size_t all = turns_much(&t, 0, t.h.n, true), which = i % 3;
        if (which != 1) opts.newest = 1 + (size_t)test_below(&random, t.h.n + 3);
        if (which != 0) opts.budget = 1 + (size_t)test_below(&random, all + 5);
        if (which != 0) opts.count = count_bytes;
        if (which != 2 && test_one_in(&random, 2))
            opts.step = (size_t)test_below(&random, which == 0 ? 20 : 300);
        if (test_one_in(&random, 8)) opts.step = huge[test_below(&random, COUNT(huge))];
        size_t first = window_start(&t, &opts);
        for (size_t k = 0; k < PROFILES; k++) {
            if (first == t.n) must_be_too_large(ms_profile_at(k), &opts, &t);
            else window_must_be(ms_profile_at(k), &opts, &t, first);
        }
        large += first == t.n;
        fits += first < t.n;
    }
    assert_true(test_scale() < 100 || (large > 5 && fits > 50));
}

TEST(tokens_are_counted_by_bytes_and_by_characters_of_words)
{
    static const struct {
        const char *text;
        bool json;
        size_t tokens;
    } cases[] = {
        {"", false, 0}, {"a", false, 1}, {"abcd", false, 1}, {"abcde", false, 2},
        {"hello world", false, 3}, {"{\"a\":[1,2]}", true, 4}, {"{\"a\":1}", true, 3},
        {"\xE4\xBD\xA0\xE5\xA5\xBD", false, 2},             /* two Chinese characters */
        {"\xEC\x95\x88\xEB\x85\x95", false, 2},             /* Korean */
        {"\xE3\x81\x82\xE3\x82\xA2", false, 2},             /* Japanese */
        {"\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2", false, 2},     /* four Cyrillic letters */
        {"abcd\xE4\xBD\xA0", false, 2}, {"\xF0\x9F\x98\x80", false, 1},
        {"\xFF\xFF", false, 1},
        {"\xEF\xA4\x80\xEF\xAB\xBF", false, 2},             /* U+F900 U+FAFF */
        {"\xEF\xAC\x80\xEF\xAC\x81", false, 1},             /* U+FB00, ligatures */
        {"\xEF\xBC\x81\xEF\xBF\xAF", false, 2},             /* U+FF01 U+FFEF */
        {"\xEF\xBF\xBC\xEF\xBF\xBD", false, 1},             /* U+FFFC U+FFFD */
        {"\xF0\xA0\x80\x80\xF0\xA0\x80\x81", false, 2},     /* U+20000 */
        {"\xF0\x9F\x98\x80\xF0\x9F\x98\x81", false, 1},     /* U+1F600 */
        {"\xEA\x80\x80\xEA\x80\x81", false, 1},             /* U+A000 */
        {"\xE4\xB8\x80\xEA\xB0\x80", false, 2},             /* U+4E00 U+AC00 */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        ms_value v = ms_text(cases[i].text);
        v.json = cases[i].json;
        if (ms_count_tokens(NULL, v) != cases[i].tokens)
            fail_msg("'%s' has %zu tokens, not %zu", cases[i].text, cases[i].tokens,
                     ms_count_tokens(NULL, v));
    }
    assert_int_equal(ms_count_tokens(NULL, text_of_size(4000)), 1000);
    assert_int_equal(ms_count_tokens(NULL, ms_text(NULL)), 0);
}

int main(void)
{
    n_traces = traces_load(traces, COUNT(traces));
    int failed = run_all_tests(reset, reset);
    traces_free(traces, n_traces);
    return failed;
}
