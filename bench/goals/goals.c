/* What the library reaches by itself, each figure beside its goal.
 *
 *     bench_goals [--n N] [--runs R] [--quick] [--dir FOLDER] [--only NAME,NAME]
 *                 [--shared FOLDER] [--json]
 *
 * N is the largest number of messages (1000000), R how often all is measured (5; 1 with
 * --quick, which also makes some loops shorter, or with --json). Files are in a folder of
 * their own inside FOLDER, else $BENCH_DIR, else the current folder, and are removed at
 * the end. --shared is the folder of test data, else $MS_SHARED, else ../shared. --json
 * prints one JSON object a line for each figure in place of the table. NAME is a goal of
 * table.c or a group of the table below; each group is described above its function.
 *
 * A line has the median of the runs, and in brackets the least and the most. Messages:
 * see data.h. Before the first run as much memory is touched as N messages take. Ratios
 * to other stores are not here: see ../compare.
 */
#define _GNU_SOURCE
#include "goals.h"

#include "table.h"

#include <getopt.h>
#include <stdarg.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { FIGURES = 256, RUNS = 100, WHAT = 96 };

size_t n_messages = 1000000, run_number;
bool quick;
const char *shared_data, *engine = "not opened";
bench_data *data;
char path[4096 + 16];
volatile unsigned long long sink;

static size_t n_runs;
static const char *only; /* groups and goals, with commas; NULL: all */

/* A group, the goal that it has figures for, and what runs it: a function that several
 * groups share is called once. */
static const struct group {
    const char *name, *goal;
    void (*run)(void);
} groups[] = {
    {"append", "", run_append},       {"memory", "M1", run_append},
    {"warm", "", run_warm},           {"slowest", "A6", run_slowest},
    {"sync", "A4", run_sync},         {"disk", "D1", run_closed},
    {"open", "O1", run_closed},       {"tail", "", run_closed},
    {"views", "", run_closed},        {"reader", "M2", run_closed},
    {"verify", "O3", run_closed},     {"get", "R7", run_get},
    {"search", "", run_search},       {"crash", "O2", run_crash},
    {"hot", "R3", run_hot},           {"old", "R5", run_old},
    {"locations", "R6", run_locations}, {"many", "D2", run_many},
    {"arena", "A5", run_arena},       {"keyed", "A8", run_keyed},
    {"threads", "A7", run_threads},   {"beside", "C1", run_beside},
    {"json", "J1", run_json},         {"project", "P1", run_project},
    {"writers", "", run_writers},     {"changes", "", run_changes}};

enum { GROUPS = sizeof groups / sizeof groups[0] };

static bool group_wanted(const struct group *g)
{
    return bench_listed(only, g->name) ||
           (g->goal[0] != '\0' && bench_listed(only, g->goal));
}

bool wanted(const char *group)
{
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, group) == 0) return group_wanted(&groups[i]);
    bench_die(group, "the table of groups does not have it");
}

static void run_all(void)
{
    for (size_t i = 0, k; i < GROUPS; i++) {
        if (!group_wanted(&groups[i])) continue;
        for (k = 0; k < i; k++)
            if (groups[k].run == groups[i].run && group_wanted(&groups[k])) break;
        if (k == i) groups[i].run();
    }
}


/* ---- figures: what was measured in each run ---- */

typedef struct figure {
    char what[WHAT];
    const char *unit, *which; /* which of the goal's figures */
    const bench_goal *goal;   /* NULL: none */
    size_t n, count;
    double values[RUNS];
} figure;

static figure figures[FIGURES];
static size_t n_figures;

__attribute__((format(printf, 3, 0))) static figure *add_value(size_t n, double value,
                                                               const char *what,
                                                               va_list args)
{
    char text[WHAT], size[32];
    size_t i = 0;
    int len = vsnprintf(text, sizeof text, what, args);
    if (n > 0 && len < WHAT)
        snprintf(text + len, sizeof text - (size_t)len, ", %s", bench_short(size, n));
    while (i < n_figures && strcmp(figures[i].what, text) != 0) i++;
    if (i == FIGURES) bench_die(text, "there is no room for more figures");
    if (i == n_figures) memcpy(figures[n_figures++].what, text, sizeof text);
    figures[i].n = n;
    figures[i].values[figures[i].count++] = value;
    return &figures[i];
}

void record(size_t n, double value, const char *unit, const char *what, ...)
{
    va_list args;
    va_start(args, what);
    add_value(n, value, what, args)->unit = unit;
    va_end(args);
}

void hold(const char *id, const char *which, size_t n, double value, const char *what,
          ...)
{
    const bench_goal *goal = bench_goal_find(id, which);
    va_list args;
    if (goal == NULL) bench_die(which, "table.c has no such row");
    va_start(args, what);
    figure *f = add_value(n, value, what, args);
    va_end(args);
    f->goal = goal;
    f->which = goal->which;
    f->unit = goal->unit;
}

static void print_json(const figure *f, double value)
{
    char size[32];
    if (f->goal == NULL || strcmp(f->goal->id, "log") == 0)
        printf("{\"store\":\"bench_goals\",\"what\":\"%s\"", f->what);
    else
        printf("{\"goal\":\"%s\",\"case\":\"%s, %s\"", f->goal->id, f->which,
               bench_short(size, f->n));
    printf(",\"n\":%zu,\"value\":%.6g,\"unit\":\"%s\",\"least\":%.6g,\"most\":%.6g}\n",
           f->n, value, f->unit, f->values[0], f->values[f->count - 1]);
}

static void print_head(void)
{
    char line[1024];
    bench_machine(line, sizeof line);
    printf("%s\n", line);
    printf("%zu messages, each %.0f bytes of payload and %.0f of names; ", n_messages,
           data->payload / (double)n_messages, data->names / (double)n_messages);
    printf("%zu runs; engine %s\n", n_runs, engine);
    bench_print_columns();
}

static void print_all(bool json)
{
    if (!json) print_head();
    for (size_t i = 0; i < n_figures; i++) {
        figure *f = &figures[i];
        double value = bench_median(f->values, f->count);
        if (json) print_json(f, value);
        else
            bench_print_line(f->goal, f->what, value, f->unit, f->values[0],
                             f->values[f->count - 1], "");
    }
    if (!json) bench_print_counts();
}


/* ---- logs and messages ---- */

void must(ms_result result, const ms_error *err)
{
    if (result != MS_OK) bench_die("msgstore", err->message);
}

ms_store *open_log(ms_log_mode mode, ms_sync_mode sync, bool ticked)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = mode;
    desc.sync = sync;
    desc.ticked = ticked;
    must(ms_log_open(&store, &desc, &err), &err);
    return store;
}

static ms_log_info info_of(ms_store *store)
{
    ms_log_info info;
    ms_error err;
    must(ms_log_stat(store, &info, &err), &err);
    return info;
}

ms_store *new_log(bool ticked)
{
    bench_remove(path);
    ms_store *store = open_log(MS_LOG_NEW, MS_SYNC_NONE, ticked);
    engine = info_of(store).engine == MS_ENGINE_MAP ? "map" : "write";
    return store;
}

ms_store *new_arena(void)
{
    ms_store *store;
    ms_error err;
    must(ms_mem_open(&store, NULL, &err), &err);
    return store;
}

void append_one(ms_store *store, size_t i)
{
    ms_error err;
    ms_envelope m = bench_message(data, i);
    ms_result result = ms_append(store, m.location, &m, NULL, &err);
    if (result != MS_OK) must(result, &err);
}

void append(ms_store *store, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) append_one(store, i);
}

void write_log(size_t n)
{
    ms_store *store = new_log(false);
    append(store, 0, n);
    ms_close(store);
    bench_read(path);
}

size_t read_all(ms_cursor *it)
{
    ms_error err;
    const ms_msg *msg;
    unsigned long long sum = 0;
    int64_t time = 0;
    size_t count = 0;
    for (; (msg = ms_next(it)) != NULL; count++) {
        ms_str text = ms_content(msg).text;
        sum += ms_seq(msg) + ms_time(msg, &time) + (time > 0);
        if (text.len > 0) sum += (unsigned char)text.ptr[0];
    }
    must(ms_cursor_close(it, &err), &err);
    sink += sum;
    return count;
}

const char *const view_names[VIEWS] = {"conversation", "agent", "global"};

size_t read_view(ms_store *store, int view, size_t limit, size_t n, uint64_t *draw)
{
    ms_str location = bench_name(data->locations[bench_below(draw, n)]);
    ms_str agent = bench_name(data->agents[bench_below(draw, BENCH_AGENTS)]);
    ms_cursor it;
    ms_error err;
    ms_result result;
    if (view == CONVERSATION)
        result = ms_get_conversation_messages(store, location, limit, &it, &err);
    else if (view == AGENT)
        result = ms_get_agent_messages(store, location, agent, limit, &it, &err);
    else result = ms_get_global_messages(store, location, limit, &it, &err);
    must(result, &err);
    return read_all(&it);
}

double anonymous_mib(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    return bench_number_in("/proc/self/status", "RssAnon:") / 1024;
}

double allocated_mib(ms_store *store) { return (double)info_of(store).memory / 1048576; }

size_t bare_size(size_t i)
{
    const bench_item *item = &data->items[i];
    return 64 + (item->type == MS_T_ACTION ? data->args[item->at].len : item->len);
}

size_t n_synced(void)
{
    size_t most = quick ? SYNCED / 5 : SYNCED;
    return n_messages >= 100 * most ? most : n_messages / 100;
}


/* ---- the command line ---- */

/* Checks that each word of --only is the name of a group or the id of a goal. */
static void check_only(void)
{
    for (const char *at = only; at != NULL && *at != '\0'; at += *at == ',') {
        char word[64];
        size_t len = strcspn(at, ","), g = 0;
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        while (g < GROUPS && strcmp(groups[g].name, word) != 0 &&
               strcmp(groups[g].goal, word) != 0)
            g++;
        if (g == GROUPS) bench_die(word, "no group and no goal is called so");
        at += len;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"shared", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {NULL, 0, NULL, 0}};
    const char *where = NULL, *set = getenv("MS_SHARED");
    bool json = false;
    int option;
    shared_data = set != NULL && set[0] != '\0' ? set : "../shared";
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'n') n_messages = bench_number(optarg, NULL, 1000, 100000000);
        else if (option == 'r') n_runs = bench_number(optarg, NULL, 1, RUNS);
        else if (option == 'd') where = optarg;
        else if (option == 'o') only = optarg;
        else if (option == 's' && optarg[0] != '\0') shared_data = optarg;
        else if (option == 'j') json = true;
        else if (option == 'q') quick = true;
        else if (option != 's') return 2;
    }
    if (n_runs == 0) n_runs = json || quick ? 1 : 5;
    check_only();
    bench_make_folder(where, "bench_goals");
    snprintf(path, sizeof path, "%s/goals.msl", bench_folder);
    data = bench_make(n_messages);
    bench_touch(n_messages);
    for (; run_number < n_runs; run_number++) {
        if (isatty(2)) fprintf(stderr, "run %zu of %zu\r", run_number + 1, n_runs);
        run_all();
    }
    print_all(json);
    bench_clean_up();
    return 0;
}
