/* ms_project: hostile histories, of messages that are only borrowed, too, and texts that
 * are not UTF-8; results beside a slow twin that pairs them with calls; memory that ends;
 * time. */

#define _GNU_SOURCE

#include "project.h"
#include "tests/fuzz/message.h"
#include "low_memory.h"

#include <time.h>


/* ---- hostile histories ---- */

static ms_str one_of(uint64_t *random, const char *const *texts, size_t n)
{
    return ms_str_of(texts[test_below(random, n)]);
}

/* An input for the generator of fuzz_project. Half of the bytes are small, so that texts
 * are short. */
static fuzz_input hostile_input(uint64_t *random, size_t size)
{
    unsigned char *bytes = (unsigned char *)ms_arena_alloc(&arena, size);
    fuzz_input in = {bytes, bytes + size};
    test_fill(random, bytes, size);
    for (size_t i = 0; i < size; i++)
        if (bytes[i] & 0x10) bytes[i] &= 0x0F;
    return in;
}

/* Calls and results are frequent and often have ids alike; some have what a call or a
 * result carries along for one provider. */
static history hostile_history(uint64_t *random, size_t most)
{
    static const char *const beside[] = {
        "{\"thoughtSignature\":\"\"}", "{\"thoughtSignature\":5}",
        "{\"outcome\":\"odd\"}", "{\"outcome\":\"\"}",
        "{\"type\":\"custom\",\"id\":\"z\",\"function\":{\"strict\":true}}",
        "{\"name\":\"other\",\"part_kind\":\"retry-prompt\"}",
        "{\"is_error\":false,\"cache_control\":{\"type\":\"ephemeral\"}}",
    };
    static const char *const ids[] = {NULL, NULL, "x", "y"};
    size_t n = (size_t)test_below(random, most + 1);
    history h = history_of(n);
    fuzz_input in = hostile_input(random, 64 * n);
    while (h.n < n && fuzz_left(&in) > 0) {
        unsigned char *type = (unsigned char *)(uintptr_t)in.at;
        if (!test_one_in(random, 3)) *type = (unsigned char)(MS_TYPE_COUNT + *type % 7);
        ms_envelope m = message_of(&in);
        if (!test_one_in(random, 3)) m.call_id = one_of(random, ids, COUNT(ids));
        if (test_one_in(random, 3)) m.extra = one_of(random, beside, COUNT(beside));
        (void)history_add(&h, m);
    }
    return h;
}

static ms_project_opts hostile_opts(uint64_t *random)
{
    fuzz_input in = hostile_input(random, 6);
    ms_project_opts opts = options_of(&in);
    opts.thinking = false;
    if (test_one_in(random, 2)) opts.newest = 0;
    if (test_one_in(random, 2)) opts.budget = 0;
    return opts;
}

TEST(hostile_history_is_taken_unless_it_is_too_large)
{
    uint64_t random = test_seed();
    size_t refused = 0, done = 0;
    for (size_t i = test_times(1200); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, test_one_in(&random, 10) ? 60 : 14);
        ms_project_opts opts = hostile_opts(&random);
        for (size_t k = 0; k < PROFILES; k++) {
            ms_result code;
            (void)projected(ms_profile_at(k), &opts, &h, h.n, NULL, &code);
            if (code == MS_E_TOO_LARGE && opts.budget > 0) {
                must_repeat(ms_profile_at(k), &opts, &h);
                refused++;
                continue;
            }
            (void)sound(ms_profile_at(k), &opts, &h);
            done++;
        }
    }
    test_tally("hostile requests", done);
    printf("%zu hostile requests, %zu too large\n", done, refused);
}

/* Writes bytes that are not UTF-8 over some of a text in a record, which no store mends
 * then. */
static void break_text(uint64_t *random, ms_str text)
{
    static const char *const broken[] = {
        "\xFF", "a\xC3", "\xED\xA0\x80", "\x80 b", "\xF0\x9F",
    };
    ms_str bytes = one_of(random, broken, COUNT(broken));
    if (text.len < bytes.len || test_one_in(random, 3)) return;
    size_t at = (size_t)test_below(random, text.len - bytes.len + 1);
    char *in_record = (char *)(uintptr_t)text.ptr;
    memcpy(in_record + at, bytes.ptr, bytes.len);
}

TEST(history_is_taken_when_its_texts_are_not_utf8)
{
    uint64_t random = test_seed();
    for (size_t i = test_times(400); i-- > 0; (void)reset(NULL)) {
        history h = hostile_history(&random, 12);
        ms_project_opts opts = hostile_opts(&random);
        opts.budget = 0;
        opts.agent_key = ms_str_of(NULL);
        for (size_t k = 0; k < h.n; k++) {
            const ms_envelope *m = &h.items[k];
            const ms_str texts[] = {m->call_id, m->tool,         m->task,       m->worker,
                                    m->summary, m->from_manager, m->from_worker};
            if (!m->content.json) break_text(&random, m->content.text);
            if (!m->args.json) break_text(&random, m->args.text);
            for (size_t f = 0; f < COUNT(texts); f++) break_text(&random, texts[f]);
        }
        for (size_t k = 0; k < PROFILES; k++)
            must_accept(ms_profile_at(k), projected_all(ms_profile_at(k), &opts, &h), &h);
    }
}


/* ---- which result goes to which call: a slow twin ---- */

typedef struct twin_call {
    int id, agent;        /* id 0: none */
    size_t turn;
    char result[16];      /* "" while there is none */
} twin_call;

typedef struct twin {
    twin_call calls[40];
    size_t n, turn;       /* turn: counts turns of all agents */
    int open;             /* the agent whose turn goes on, or -1 */
    size_t newest[2];     /* turn of each agent */
} twin;

static void twin_calls(twin *t, int agent, int id)
{
    twin_call *call = &t->calls[t->n++];
    if (t->open != agent) t->newest[agent] = ++t->turn;
    t->open = agent;
    memset(call, 0, sizeof *call);
    call->id = id;
    call->agent = agent;
    call->turn = t->newest[agent];
}

static bool twin_waits(const twin *t, size_t i, int agent, int id)
{
    const twin_call *call = &t->calls[i];
    return call->result[0] == '\0' && call->agent == agent && (id == 0 || call->id == id);
}

/* The nearest turn with such a call, and in it the oldest; without an id, none but the
 * newest turn of the agent. */
static void twin_result(twin *t, int agent, int id, const char *text)
{
    size_t turn = t->newest[agent], i = t->n;
    while (id != 0 && i > 0 && !twin_waits(t, i - 1, agent, id)) i--;
    if (id != 0) turn = i > 0 ? t->calls[i - 1].turn : 0;
    for (i = 0; i < t->n; i++) {
        if (t->calls[i].turn != turn || !twin_waits(t, i, agent, id)) continue;
        snprintf(t->calls[i].result, sizeof t->calls[i].result, "%s", text);
        if (t->newest[agent] == turn && t->open == agent) t->open = -1;
        return;
    }
    if (id == 0) t->open = -1; /* it becomes text of the user */
}

/* One more message, for the history and for the twin. */
static void twin_step(twin *t, history *h, uint64_t *random)
{
    static const char *const ids[] = {NULL, "x", "y"};
    static const char *const agents[] = {"a", "b"};
    char text[16];
    int id = (int)test_below(random, 3), agent = (int)test_below(random, 2);
    unsigned what = (unsigned)test_below(random, 10);
    ms_envelope m = ms_user_message(ms_text("u"));
    if (what == 0) t->open = -1;
    snprintf(text, sizeof text, "%c%zu", what < 6 ? 'c' : 'r', what < 6 ? t->n : h->n);
    if (what > 0 && what < 6) {
        m = action(ids[id], text);
        twin_calls(t, agent, id);
    } else if (what >= 6) {
        m = observation(ids[id], ms_text(text));
        twin_result(t, agent, id, text);
    }
    if (what > 0) m.agent_key = ms_str_of(agents[agent]);
    add(h, m);
}

/* How many calls an openai list has; SIZE_MAX: one is answered by another result than the
 * twin's. */
static size_t twin_compare(const twin *t, json_t *list)
{
    size_t found = 0, i, k, r;
    json_t *message, *call;
    json_array_foreach (list, i, message) {
        json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
            const char *tool = text_at(json_object_get(call, "function"), "name");
            const char *wanted = t->calls[strtoul(tool + 1, NULL, 10)].result;
            if (wanted[0] == '\0') wanted = NEVER;
            for (r = i + 1; strcmp(text_at(json_array_get(list, r), "tool_call_id"),
                                   text_at(call, "id")) != 0; r++)
                continue;
            if (strcmp(text_at(json_array_get(list, r), "content"), wanted) != 0)
                return SIZE_MAX;
            found++;
        }
    }
    return found;
}

TEST(result_goes_to_the_call_that_the_twin_finds)
{
    uint64_t random = test_seed();
    for (size_t i = test_times(2000); i-- > 0; (void)reset(NULL)) {
        history h = history_of(40);
        twin t = {.open = -1};
        for (size_t n = (size_t)test_below(&random, 40); n > 0; n--)
            twin_step(&t, &h, &random);
        ms_str body = projected_all(profile_of("openai"), &everything, &h);
        json_t *list = parsed(body);
        if (twin_compare(&t, list) != t.n) {
            print_history(&h);
            print_text("it becomes", body);
            fail_msg("a result is at another call than it should be");
        }
        json_decref(list);
    }
}


/* ---- memory that ends ---- */

typedef struct job {
    const ms_profile *profile;
    const ms_project_opts *opts;
    const history *h;
    ms_str whole;
} job;

static ms_result run_low_memory(void *of, ms_arena *in)
{
    const job *j = (const job *)of;
    feed f = {j->h, 0, j->h->n};
    ms_buf out = {&work, NULL, 0, 0};
    ms_result code = projection_write(j->profile, j->opts, feed_next, &f, in, ms_buf_write,
                                      &out, NULL, NULL);
    if (code == MS_OK) assert_true(ms_str_equal(ms_buf_text(&out), j->whole));
    return code;
}

/* An error, or all. */
static size_t must_end_well(const ms_profile *profile, const ms_project_opts *opts,
                            const history *h, size_t step)
{
    job j = {profile, opts, h, projected_all(profile, opts, h)};
    return low_memory(run_low_memory, &j, step);
}

/* Each kind of trouble, long texts, a long history, and hostile ones. */
TEST(projection_fails_as_a_whole_when_memory_ends)
{
    uint64_t random = test_seed();
    ms_project_opts opts;
    history h = history_long(400);
    size_t failed = must_end_well(profile_of("anthropic"), &everything, &h, 4096);
    h = history_of_long_texts(&opts);
    opts.fresh = 1;
    for (size_t k = 0; k < PROFILES; k++)
        failed += must_end_well(ms_profile_at(k), &opts, &h, 16);
    for (size_t i = 0; i < row_count; i++, (void)reset(NULL)) {
        opts = row_opts(&rows[i]);
        if (row_get(&rows[i], "too_large") != NULL) continue;
        h = row_history(&rows[i]);
        for (size_t k = 0; k < PROFILES; k++)
            if (test_scale() >= 100 || k == i % PROFILES)
                failed += must_end_well(ms_profile_at(k), &opts, &h, 16);
    }
    for (size_t i = test_times(60); i-- > 0; (void)reset(NULL)) {
        h = hostile_history(&random, 30);
        opts = hostile_opts(&random);
        opts.budget = 0;
        failed += must_end_well(ms_profile_at(i % PROFILES), &opts, &h, 32);
    }
    assert_true(failed > 1000);
    test_tally("sizes of memory that were too small to project", failed);
}


/* ---- time ---- */

/* How n calls and n results come: what is hard for a search of pairs. */
enum {
    ONE_ID,               /* all calls of one id in one turn, then all results */
    ONE_ID_TURNS,         /* one id, each call in a turn of its own, results at the end */
    ONE_ID_OPEN,          /* one id, calls that stay open, one result in between */
    NO_ID,                /* no ids, all calls in one turn, then all results */
    NO_ID_OTHER_TOOL,     /* the same, results name a tool that none of the calls has */
    NO_ID_BACKWARDS,      /* results name tools from the last call to the first */
    LONG_ID,              /* one id that does not fit */
    ALIKE_IDS,            /* ids that fill their room, alike to near the end, each twice */
    NO_ID_ONE_OPEN,       /* no ids, a first call of another tool is never answered */
    WAYS
};

static ms_envelope hard_message(int way, size_t i, size_t n, char text[48])
{
    bool call = way == ONE_ID_TURNS ? i < 2 * n && i % 2 == 0 : i < n;
    bool asks = (way == ONE_ID_TURNS && i < 2 * n && i % 2 == 1) ||
                (way == ONE_ID_OPEN && i % 50 == 48);
    if (asks) return ms_user_message(ms_text("u"));
    if (way == ONE_ID_OPEN && i % 50 == 49) call = false;
    ms_envelope m = call ? action(NULL, "f") : observation(NULL, ms_text("r"));
    if (way <= ONE_ID_OPEN) m.call_id = MS_STR("x");
    if (way == LONG_ID) m.call_id = MS_STR(FORTY FORTY);
    if (way == NO_ID_OTHER_TOOL && !call) m.tool = MS_STR("g");
    if (way == NO_ID_ONE_OPEN) m.tool = i == 0 ? MS_STR("g") : MS_STR("f");
    if (way == ALIKE_IDS) {
        size_t which = i % (n / 2);
        memcpy(text, FORTY, 40);
        for (size_t k = 37; k < 40; k++, which /= 64) text[k] = (char)('0' + which % 64);
        m.call_id = ms_str_n(text, 40);
    }
    if (way != NO_ID_BACKWARDS) return m;
    snprintf(text, 48, "f%zu", call ? i : 2 * n - 1 - i);
    m.tool = ms_str_of(text);
    return m;
}

static history history_hard(int way, size_t n)
{
    size_t all = way == ONE_ID_TURNS ? 3 * n : way == ONE_ID_OPEN ? n : 2 * n;
    history h = history_of(all);
    for (size_t i = 0; i < all; i++) {
        char text[48];
        add(&h, hard_message(way, i, n, text));
    }
    return h;
}

/* Processor time, the least of four runs: others on the machine do not count. */
static double least_time_of(const ms_profile *profile, const history *h)
{
    ms_project_opts opts = everything;
    double least = 1e9;
    opts.stable = true;
    for (size_t i = 0; i < 4; i++) {
        clock_t begin = clock();
        (void)projected_all(profile, &opts, h);
        double took = (double)(clock() - begin) / (double)CLOCKS_PER_SEC;
        ms_arena_reset(&work);
        if (took < least) least = took;
    }
    return least;
}

/* Four times as many calls take about four times as long, whatever their ids; sixteen
 * times would be the square. */
TEST(time_grows_with_the_calls_when_they_are_hard_to_pair)
{
    size_t n = test_scale() < 100 ? 8000 : test_scale() < 1000 ? 20000 : 100000;
    for (int way = 0; way < WAYS; way++) {
        (void)reset(NULL);
        history few = history_hard(way, n / 4), many = history_hard(way, n);
        double quarter = least_time_of(profile_of("openai"), &few);
        double whole = least_time_of(profile_of("openai"), &many);
        printf("way %d: %zu messages in %.3f s, a quarter of them in %.3f s\n", way, many.n,
               whole, quarter);
        if (whole > 0.05) assert_true(whole < 10 * quarter);
    }
}

int main(void)
{
    load_rows();
    return run_all_tests(reset, reset);
}
