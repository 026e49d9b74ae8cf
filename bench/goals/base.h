/* What the groups of goals.c share: figures and how they are printed, what can go wrong,
 * what the system tells, logs to write and read. Part of that program: it has the
 * includes and the main function. */

#ifndef BENCH_GOALS_BASE_H
#define BENCH_GOALS_BASE_H

static size_t n_messages = 1000000;
static size_t n_runs;
static bool quick;           /* shorter loops */
static const char *only;     /* groups and ids of goals, with commas; NULL: all */
static const char *shared;   /* the folder of test data */
static bench_data *data;
static char folder[4096], path[4096 + 16];
static char others[2][4096 + 16]; /* more logs, of the group changes */
static volatile unsigned long long sink; /* what is read goes here, so that it is read */


/* ---- figures: what was measured in each run ---- */

enum { FIGURES = 256, RUNS = 100 };

typedef struct figure {
    char what[64];
    const char *unit;
    const bench_goal *goal;   /* NULL: none */
    size_t n;                 /* of messages, for the goal */
    size_t count;
    double values[RUNS];
} figure;

static figure figures[FIGURES];
static size_t n_figures;
static bool recording;        /* false while warming up */

static void die(const char *what, const char *why);

static figure *find_figure(const char *what, const char *unit)
{
    for (size_t i = 0; i < n_figures; i++)
        if (strcmp(figures[i].what, what) == 0) return &figures[i];
    if (n_figures == FIGURES) die(what, "there is no room for more figures");
    figure *f = &figures[n_figures++];
    snprintf(f->what, sizeof f->what, "%s", what);
    f->unit = unit;
    return f;
}

/* A figure that nothing is held against. */
static figure *record(const char *what, double value, const char *unit)
{
    if (!recording) return NULL;
    figure *f = find_figure(what, unit);
    if (f->count < RUNS) f->values[f->count++] = value;
    return f;
}

/* A figure of n messages that a row of goals/table.h is about; in the unit of that. */
static void hold(const char *id, const char *which, size_t n, const char *what,
                 double value)
{
    const bench_goal *goal = bench_goal_find(id, which);
    if (goal == NULL) die(which, "goals/table.h has no such row");
    figure *f = record(what, value, goal->unit);
    if (f == NULL) return;
    f->goal = goal;
    f->n = n;
}

/* "what, 10k" */
static const char *labelled(char out[64], const char *what, size_t n)
{
    bool mega = n >= 1000000 && n % 1000000 == 0, kilo = n >= 1000 && n % 1000 == 0;
    size_t unit = mega ? 1000000 : kilo ? 1000 : 1;
    snprintf(out, 64, "%s, %zu%s", what, n / unit, mega ? "M" : kilo ? "k" : "");
    return out;
}

static double middle_of(figure *f) { return bench_median(f->values, f->count); }

static const char *bound_text(char out[16], double bound)
{
    snprintf(out, 16, bound > 0 ? "%g" : "-", bound);
    return out;
}

static void print_figure(figure *f)
{
    double value = middle_of(f);
    const bench_goal *goal = f->goal;
    char must[16], stretch[16];
    printf("%-46s %10.3f %-11s %6s %7s  %-7s (%.3f .. %.3f)\n", f->what, value, f->unit,
           bound_text(must, goal != NULL ? goal->must : 0),
           bound_text(stretch, goal != NULL ? goal->stretch : 0),
           goal != NULL ? bench_verdict(goal, value) : "-", f->values[0],
           f->values[f->count - 1]);
}

/* Is there a figure of the same goal with another number of messages? */
static bool has_sizes(const figure *f)
{
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].goal == f->goal && figures[i].n != f->n) return true;
    return false;
}

/* One line of JSON: a figure of a goal, or another one: a control, of the log alone. */
static void print_json(figure *f)
{
    double value = middle_of(f);
    char which[64];
    if (f->goal == NULL || strcmp(f->goal->id, "log") == 0)
        printf("{\"store\":\"msgstore\",\"n\":%zu,\"what\":\"%s\"", n_messages,
               f->what + strspn(f->what, " "));
    else
        printf("{\"goal\":\"%s\",\"case\":\"%s\",\"n\":%zu", f->goal->id,
               has_sizes(f) ? labelled(which, f->goal->which, f->n) : f->goal->which,
               f->n);
    printf(",\"value\":%.6g,\"unit\":\"%s\",\"least\":%.6g,\"most\":%.6g}\n", value,
           f->unit, f->values[0], f->values[f->count - 1]);
}


/* ---- what can go wrong, and cleaning up ---- */

static volatile pid_t child; /* the writer to be killed; 0: none */

enum { WRITERS_MOST = 4 };

static volatile pid_t writers[WRITERS_MOST]; /* of the group writers; 0: none */

static void clean_up(void)
{
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    for (int i = 0; i < WRITERS_MOST; i++)
        if (writers[i] > 0) kill(writers[i], SIGKILL);
    if (folder[0] == '\0') return;
    unlink(path);
    unlink(others[0]);
    unlink(others[1]);
    rmdir(folder);
}

static void on_signal(int number)
{
    clean_up();
    _exit(128 + number);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    clean_up();
    exit(1);
}

static void must(ms_result result, const ms_error *err)
{
    if (result != MS_OK) die("msgstore", err->message);
}

/* For what sets errno when it fails. */
static void must_have(bool fine, const char *what)
{
    if (!fine) die(what, strerror(errno));
}


/* ---- what the system tells ---- */

/* What was freed goes back first, so that taking it again counts. */
static double anonymous_bytes(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    return 1024 * bench_number_in("/proc/self/status", "RssAnon:");
}


/* ---- building blocks ---- */

static ms_store *open_log(ms_log_mode mode, ms_sync_mode sync, bool ticked)
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

static const char *engine; /* what the store took, for the head of the table */

static ms_store *new_log(bool ticked)
{
    ms_log_info info;
    ms_error err;
    unlink(path);
    ms_store *store = open_log(MS_LOG_NEW, MS_SYNC_NONE, ticked);
    must(ms_log_stat(store, &info, &err), &err);
    engine = info.engine == MS_ENGINE_MAP ? "map" : "write";
    return store;
}

static void append(ms_store *store, size_t from, size_t to)
{
    ms_error err;
    for (size_t i = from; i < to; i++) {
        ms_envelope m = bench_message(data, i);
        ms_result result = ms_append(store, m.location, &m, NULL, &err);
        if (result != MS_OK) must(result, &err);
    }
}

/* Reads a cursor to its end and closes it; returns how many messages. */
static size_t read_all(ms_cursor *it)
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

enum { CONVERSATION, AGENT, GLOBAL, VIEWS };

static const char *const view_names[VIEWS] = {"conversation", "agent", "global"};

/* Of one of the locations 0 to n - 1; 0 is the one with the most messages. */
static size_t read_view(ms_store *store, int view, size_t limit, size_t n, uint64_t *draw)
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

/* Every byte into the page cache, in pieces of 1 MiB. */
static void read_file(void)
{
    static char piece[1 << 20];
    int file = open(path, O_RDONLY);
    must_have(file >= 0, path);
    while (read(file, piece, sizeof piece) > 0) continue;
    close(file);
}

/* From opening to the newest 20 of a conversation; goal and which name the row. Returns
 * milliseconds. */
static double open_answer_close(ms_log_mode mode, const char *what, size_t n,
                                const char *goal, const char *which)
{
    char label[64];
    uint64_t state = n, begin = bench_now();
    ms_store *store = open_log(mode, MS_SYNC_NONE, false);
    size_t got = read_view(store, CONVERSATION, 20, BENCH_LOCATIONS, &state);
    double spent = bench_since(begin);
    if (got == 0 && n >= 10000) die("the first answer", "there is none");
    ms_close(store);
    hold(goal, which, n, labelled(label, what, n), spent / 1e6);
    return spent / 1e6;
}

static const struct {
    const char *name, *ids;   /* a group, and the goals that it has figures for */
} groups[] = {{"append", "-"},  {"memory", "M1"},  {"warm", "-"},    {"slowest", "A6"},
              {"sync", "A4"},   {"tail", "-"},     {"views", "-"},   {"open", "O1"},
              {"verify", "O3"}, {"disk", "D1"},    {"reader", "M2"}, {"search", "-"},
              {"crash", "O2"},  {"hot", "R3"},     {"old", "R5"},    {"many", "D2"},
              {"arena", "A5"},  {"keyed", "A8"},   {"threads", "A7"}, {"beside", "C1"},
              {"json", "J1"},   {"project", "P1"}, {"writers", "-"}, {"changes", "-"}};

enum { GROUPS = sizeof groups / sizeof groups[0] };

/* Is it the name or the goal of that group? */
static bool is_group(size_t group, const char *text, size_t len)
{
    const char *name = groups[group].name, *ids = groups[group].ids;
    return (strlen(name) == len && memcmp(name, text, len) == 0) ||
           (strlen(ids) == len && memcmp(ids, text, len) == 0);
}

/* Do `group` and the option --only meet? */
static bool wanted(const char *group)
{
    if (only == NULL) return true;
    size_t g = 0;
    while (g < GROUPS && strcmp(groups[g].name, group) != 0) g++;
    if (g == GROUPS) die(group, "the table of groups does not have it");
    for (const char *at = only; *at != '\0'; at += *at == ',') {
        size_t len = strcspn(at, ",");
        if (is_group(g, at, len)) return true;
        at += len;
    }
    return false;
}

/* Each word of --only must be the name of a group or the id of a goal. */
static void check_only(void)
{
    for (const char *at = only; at != NULL && *at != '\0'; at += *at == ',') {
        size_t len = strcspn(at, ","), g = 0;
        while (g < GROUPS && !is_group(g, at, len)) g++;
        if (g == GROUPS) die(at, "no group and no goal is called so");
        at += len;
    }
}

/* Touches as much memory as n messages take, and gives it back: a virtual machine may
 * have to get each page from its host the first time, which costs many times what is
 * measured. */
static void touch_memory(size_t n)
{
    size_t size = n * 2048 + ((size_t)64 << 20);
    double most = 1024 * bench_number_in("/proc/meminfo", "MemAvailable:") / 2;
    if (most > 0 && (double)size > most) size = (size_t)most;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    must_have(memory != MAP_FAILED, "memory to touch");
    for (size_t i = 0; i < size; i += 4096) ((volatile char *)memory)[i] = 1;
    munmap(memory, size);
}

#endif /* BENCH_GOALS_BASE_H */
