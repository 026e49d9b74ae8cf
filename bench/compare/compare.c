/* The comparison: runs the programs of all stores side by side, and prints what they
 * reached, and a table of the goals.
 *
 *     bench [--quick] [--n N,N] [--runs R] [--dir FOLDER] [--build FOLDER] [--only ID,ID]
 *           [--json FILE]
 *
 * N are numbers of messages (100000,1000000); R says how often all is measured (3). The
 * files are in a folder of their own inside --dir, else $BENCH_DIR, else the current
 * folder, and removed at the end. --build is where the programs are (build). --only names
 * goals, such as A1,R3: only what they need is run. --json writes all figures and goals
 * to a file too, an object a line. --quick is for a look: 20000 and 100000 messages,
 * short times, of the peers only those that goals name, what reads only beside the
 * largest N, no scan, no cold opening, and one run of the goals without a peer.
 *
 * Every figure comes from a process of its own (see driver_main.h). For each N all stores
 * are filled, and must give the same rows: bench compares hashes over all views, and ends
 * when one differs. Then each run goes through the modes, and in each mode through the
 * stores, beginning with another store in each run. What counts is the median of the
 * runs; beside it stand the least and the most. A ratio is that of two medians of the
 * same runs, so above 1 ours is faster; "unsteady" says that the most of one of them is
 * over 1.5 times the least. Synced single appends go on a file of at most 100000
 * messages (with --quick of the smallest N), and are run once, beside the largest N.
 *
 * Goals without a peer are measured by bench_goals and compile.sh; their lines are
 * compared with goals/table.h here, like ours. A goal that wants an N that is not asked
 * for is told of the nearest one, which the column n shows.
 *
 * A program that is not there is named, and the goals that need it say so; the others go
 * on. Exit status: 0, also when goals are not reached; 1 when a program failed, or stores
 * gave different rows; 2 for wrong options.
 */
#define _GNU_SOURCE
#define MSGSTORE_NO_LOG
#define MSGSTORE_NO_DIALECTS
#define MSGSTORE_IMPLEMENTATION
#include "../data.h"
#include "../goals/table.h"
#include "../system.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum {
    RUNS = 64,
    SIZES = 8,
    STORES = 32,
    TEXT = 128,               /* room for a name or a reason */
    LINE = 1024,
    SYNC_N = 100000,          /* messages of the file that is synced */
    PATIENCE = 1200           /* seconds until a program is given up */
};

static struct options {
    bool quick;
    size_t n[SIZES], n_count, runs;
    const char *dir, *build, *only, *json;
} options = {false, {100000, 1000000}, 2, 3, NULL, "build", NULL, NULL};

static char folder[4096];     /* ours; "": none */
static volatile pid_t child;  /* 0: none */
static bool failed;           /* a program has failed */


/* ---- trouble, and cleaning up ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "%s: cannot be removed: %s\n", path, strerror(errno));
}

static void clean_up(void)
{
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    if (folder[0] != '\0') remove_tree(folder);
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

static void make_folder(void)
{
    const char *set = getenv("BENCH_DIR"), *where = options.dir;
    if (where == NULL) where = set != NULL && set[0] != '\0' ? set : ".";
    int len = snprintf(folder, sizeof folder, "%s/bench_XXXXXX", where);
    if (len >= (int)sizeof folder || mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        die(where, "no folder can be made there");
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}


/* ---- figures: what was measured in each run ---- */

typedef struct figure {
    char store[TEXT], what[TEXT], unit[32], hash[32];
    size_t n, count;
    double values[RUNS];
    bool goal;                /* store is a goal's id and what its case */
    bool printed;
} figure;

static figure *figures;
static size_t n_figures;

static figure *find_figure(const char *store, const char *what, size_t n)
{
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].n == n && strcmp(figures[i].what, what) == 0 &&
            strcmp(figures[i].store, store) == 0)
            return &figures[i];
    return NULL;
}

/* Adds a value to the figure of that name, which may be new. */
static figure *record(const figure *one)
{
    figure *f = find_figure(one->store, one->what, one->n);
    if (f == NULL) {
        figures = (figure *)realloc(figures, (n_figures + 1) * sizeof *figures);
        if (figures == NULL) die("figures", "no memory");
        f = &figures[n_figures++];
        *f = *one;
        f->count = 0;
    }
    if (f->count < RUNS) f->values[f->count++] = one->values[0];
    return f;
}

static double median(figure *f) { return bench_median(f->values, f->count); }


/* ---- lines of programs ---- */

static void copy_text(char *out, size_t size, ms_str text)
{
    size_t len = text.len < size - 1 ? text.len : size - 1;
    if (len > 0) memcpy(out, text.ptr, len);
    out[len] = '\0';
}

/* The text of a member; "" when there is none. */
static void member_text(ms_str object, const char *name, char *out, size_t size)
{
    ms_str value, text = MS_STR("");
    if (ms_json_member(object, ms_str_of(name), &value) &&
        ms_json_string(value, NULL, &text) != MS_OK)
        die(name, "a program wrote a member that is no plain text");
    copy_text(out, size, text);
}

static double member_number(ms_str object, const char *name)
{
    ms_str value;
    double number = 0;
    if (ms_json_member(object, ms_str_of(name), &value) &&
        ms_json_f64(value, &number) != MS_OK)
        die(name, "a program wrote a member that is no number");
    return number;
}

/* What stores there are, and why a mode of a store has no figures. */
typedef struct store {
    char name[TEXT], notes[256];
    const struct program *program;
    char broken[3 * TEXT];      /* "": it has worked so far */
} store;

static store stores[STORES];
static size_t n_stores;

static void add_store(const struct program *p, ms_str line)
{
    if (n_stores == STORES) die("stores", "too many");
    store *s = &stores[n_stores++];
    memset(s, 0, sizeof *s);
    s->program = p;
    member_text(line, "store", s->name, sizeof s->name);
    member_text(line, "notes", s->notes, sizeof s->notes);
}

static void take_figure(ms_str line)
{
    figure f;
    ms_str skip;
    memset(&f, 0, sizeof f);
    if (ms_json_member(line, MS_STR("skip"), &skip)) return; /* the table lacks it */
    f.goal = ms_json_member(line, MS_STR("goal"), &skip);
    member_text(line, f.goal ? "goal" : "store", f.store, sizeof f.store);
    member_text(line, f.goal ? "case" : "what", f.what, sizeof f.what);
    member_text(line, "unit", f.unit, sizeof f.unit);
    member_text(line, "hash", f.hash, sizeof f.hash);
    f.n = (size_t)member_number(line, "n");
    f.values[0] = member_number(line, "value");
    record(&f);
}

static void take_line(const struct program *p, char *text)
{
    ms_str line = ms_str_of(text), what;
    ms_error err;
    if (line.len == 0) return;
    if (ms_json_check(line, NULL, &line, &err) != MS_OK) die(text, err.message);
    if (ms_json_member(line, MS_STR("what"), &what) &&
        ms_json_string_is(what, MS_STR("name")))
        add_store(p, line);
    else take_figure(line);
}


/* ---- programs ---- */

typedef struct program {
    const char *name, *package; /* NULL: nothing beside this project */
    bool script;
    char missing[TEXT];       /* "": it is there; else why not */
} program;

static program programs[] = {
    {"msgstore", NULL, false, ""},          {"floor", NULL, false, ""},
    {"sqlite", "libsqlite3-dev", false, ""}, {"lmdb", "liblmdb-dev", false, ""},
    {"leveldb", "libleveldb-dev", false, ""}, {"jsonl", "libcjson-dev", false, ""},
    {"python", "python3", true, ""}};

enum { PROGRAMS = sizeof programs / sizeof programs[0], WORDS = 24 };

/* A command: its words, and NULL behind them. Zeroed it is empty. */
typedef struct command {
    char text[3 * 4096];
    size_t used, count;
    char *words[WORDS];
} command;

static void add_word(command *c, const char *word)
{
    size_t size = strlen(word) + 1;
    if (c->count + 1 >= WORDS || size > sizeof c->text - c->used)
        die(word, "the command is too long");
    c->words[c->count++] = (char *)memcpy(c->text + c->used, word, size);
    c->used += size;
}

static void add_number(command *c, const char *option, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", number);
    add_word(c, option);
    add_word(c, text);
}

static void start(command *c, int out)
{
    child = fork();
    if (child < 0) die("fork", strerror(errno));
    if (child > 0) return;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(out, 1);
    execvp(c->words[0], c->words);
    fprintf(stderr, "%s: %s\n", c->words[0], strerror(errno));
    _exit(127);
}

/* Takes lines until the program closes its end; false: it took too long. */
static bool take_lines(const program *p, int in)
{
    char text[LINE];
    size_t used = 0;
    struct pollfd ready = {in, POLLIN, 0};
    while (poll(&ready, 1, PATIENCE * 1000) > 0) {
        ssize_t got = read(in, text + used, sizeof text - 1 - used);
        if (got <= 0) return true;
        used += (size_t)got;
        text[used] = '\0';
        for (char *end; (end = strchr(text, '\n')) != NULL;) {
            *end = '\0';
            take_line(p, text);
            used -= (size_t)(end + 1 - text);
            memmove(text, end + 1, used + 1);
        }
        if (used == sizeof text - 1) die(text, "the line is too long");
    }
    return false;
}

/* Runs a program and takes its lines. Returns NULL or what went wrong. */
static const char *run(const program *p, command *c)
{
    int ends[2], status = 0;
    fflush(stdout);
    if (pipe(ends) != 0) die("pipe", strerror(errno));
    start(c, ends[1]);
    close(ends[1]);
    bool done = take_lines(p, ends[0]);
    close(ends[0]);
    if (!done) kill(child, SIGKILL);
    waitpid(child, &status, 0);
    child = 0;
    return !done ? "it took too long" : status != 0 ? "it failed" : NULL;
}

static void progress(const char *what, const char *who, size_t n)
{
    if (isatty(2)) fprintf(stderr, "\r\033[K%s, %s, %zu", what, who, n);
}

/* Where a store's program is. */
static void path_of(const program *p, char path[4096])
{
    if (p->script) snprintf(path, 4096, "bench/compare/%s.py", p->name);
    else snprintf(path, 4096, "%s/bench_%s", options.build, p->name);
}

static const char *run_mode(const store *s, const char *mode, size_t n, double seconds)
{
    bool cold = strcmp(mode, "open cold") == 0;
    char path[4096];
    command c;
    memset(&c, 0, sizeof c);
    path_of(s->program, path);
    if (s->program->script) add_word(&c, "python3");
    add_word(&c, path);
    add_word(&c, cold ? "open" : mode);
    if (cold) add_word(&c, "--cold");
    if (s->name[0] != '\0') {
        add_number(&c, "--n", (double)n);
        add_word(&c, "--dir"), add_word(&c, folder);
        add_word(&c, "--variant"), add_word(&c, s->name);
    }
    if (seconds > 0) add_number(&c, "--seconds", seconds);
    return run(s->program, &c);
}

/* Which stores there are; says which programs are not there. */
static void find_stores(void)
{
    for (size_t i = 0; i < PROGRAMS; i++) {
        program *p = &programs[i];
        store all = {"", "", p, ""};
        char path[4096];
        path_of(p, path);
        size_t before = n_stores;
        const char *trouble = access(path, p->script ? R_OK : X_OK) != 0
                                  ? "is not there"
                                  : run_mode(&all, "names", 0, 0);
        if (trouble == NULL && n_stores > before) continue;
        snprintf(p->missing, sizeof p->missing, "%s %s%s%s%s", p->name,
                 trouble != NULL ? trouble : "has no stores",
                 p->package != NULL ? " (package " : "",
                 p->package != NULL ? p->package : "", p->package != NULL ? ")" : "");
        fprintf(stderr, "bench: %s: its figures are left out\n", p->missing);
    }
    if (n_stores == 0 || strcmp(stores[0].name, "msgstore") != 0)
        die(options.build, "there is no bench_msgstore that runs");
}


/* ---- goals that are ratios to a peer ---- */

/* In which figure, against the best of the stores whose names begin so, at which N (0:
 * at each). */
static const struct ratio {
    const char *id, *which, *mode, *what, *peer;
    size_t n;
} ratios[] = {
    {"A1", "x sqlite", "append", "append", "sqlite tuned", 0},
    {"A1", "x lmdb", "append", "append", "lmdb", 0},
    {"A1", "x leveldb", "append", "append", "leveldb", 0},
    {"A1", "x jsonl", "append", "append", "jsonl", 0},
    {"A2", "x sqlite", "batch", "batch", "sqlite tuned", 0},
    {"A2", "x lmdb", "batch", "batch", "lmdb", 0},
    {"A2", "x leveldb", "batch", "batch", "leveldb", 0},
    {"A2", "x floor", "batch", "batch", "floor prefaulted", 0},
    {"A3", "x sqlite", "batch-sync", "batch-sync", "sqlite tuned", 0},
    {"A3", "x lmdb", "batch-sync", "batch-sync", "lmdb", 0},
    {"A3", "x leveldb", "batch-sync", "batch-sync", "leveldb", 0},
    {"A3", "x floor", "batch-sync", "batch-sync", "floor write", 0},
    {"A4", "x sqlite", "sync", "sync p50", "sqlite tuned", SYNC_N},
    {"A4", "x lmdb", "sync", "sync p50", "lmdb", SYNC_N},
    {"A4", "x python", "sync", "sync p50", "python", SYNC_N},
    {"A4", "x bare, cache read anew", "sync", "sync p50", "bare pwrite", SYNC_N},
    {"A4", "disk, cache read anew", "sync", "sync device", NULL, SYNC_N},
    {"R1", "x sqlite", "read", "conversation shallow", "sqlite tuned", 100000},
    {"R1", "x sqlite", "read", "agent shallow", "sqlite tuned", 100000},
    {"R1", "x sqlite", "read", "global shallow", "sqlite tuned", 100000},
    {"R1", "x lmdb", "read", "conversation shallow", "lmdb clustered", 100000},
    {"R1", "x lmdb", "read", "agent shallow", "lmdb clustered", 100000},
    {"R1", "x lmdb", "read", "global shallow", "lmdb clustered", 100000},
    {"R1", "x leveldb", "read", "conversation shallow", "leveldb", 100000},
    {"R1", "x leveldb", "read", "agent shallow", "leveldb", 100000},
    {"R1", "x leveldb", "read", "global shallow", "leveldb", 100000},
    {"R2", "x sqlite", "read", "conversation deep", "sqlite tuned", 1000000},
    {"R2", "x sqlite", "read", "agent deep", "sqlite tuned", 1000000},
    {"R2", "x sqlite", "read", "global deep", "sqlite tuned", 1000000},
    {"R2", "x lmdb", "read", "conversation deep", "lmdb clustered", 1000000},
    {"R2", "x lmdb", "read", "agent deep", "lmdb clustered", 1000000},
    {"R2", "x lmdb", "read", "global deep", "lmdb clustered", 1000000},
    {"R2", "x leveldb", "read", "conversation deep", "leveldb", 1000000},
    {"R2", "x leveldb", "read", "agent deep", "leveldb", 1000000},
    {"R2", "x leveldb", "read", "global deep", "leveldb", 1000000},
    {"R3", "x sqlite", "read", "tail shallow", "sqlite tuned", 0},
    {"R3", "x lmdb", "read", "tail shallow", "lmdb", 0},
    {"R4", "x python", "read", "history shallow", "python", 0}};

enum { RATIOS = sizeof ratios / sizeof ratios[0] };

/* Is it among the goals that --only names? */
static bool wanted(const char *id)
{
    const char *at = options.only;
    size_t len = strlen(id);
    for (; at != NULL; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, id, len) == 0 && (at[len] == '\0' || at[len] == ',')) return true;
    }
    return options.only == NULL;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Does a goal that is wanted need this mode of this store? Ours belongs to each. */
static bool needed(const char *mode, const char *name)
{
    for (size_t i = 0; i < RATIOS; i++) {
        const struct ratio *r = &ratios[i];
        if (!wanted(r->id) || strcmp(r->mode, mode) != 0) continue;
        if (strcmp(name, stores[0].name) == 0 || (r->peer && begins(name, r->peer)))
            return true;
    }
    return false;
}

/* Without --quick and --only everything is run, also what no goal needs. */
static bool runs_in(const char *mode, const char *name)
{
    if (!options.quick && options.only == NULL) return true;
    return needed(mode, name);
}


/* ---- measuring ---- */

static void run_store(store *s, const char *mode, size_t n, double seconds)
{
    if (s->broken[0] != '\0') return;
    progress(mode, s->name, n);
    const char *trouble = run_mode(s, mode, n, seconds);
    if (trouble == NULL) return;
    snprintf(s->broken, sizeof s->broken, "%s, %s: %s", s->name, mode, trouble);
    fprintf(stderr, "bench: %s: its other figures are left out\n", s->broken);
    failed = true;
}

static const char *const views[] = {"check tail", "check conversation", "check agent",
                                    "check team", "check global", "check history"};

static void tell_check(const figure *f)
{
    fprintf(stderr, "  %-24s %s, %zu messages: %.0f rows, hash %s\n", f->store, f->what,
            f->n, f->values[0], f->hash);
}

/* All stores that were asked must have answered as ours did. */
static void compare_checks(size_t n)
{
    bool equal = true;
    for (size_t v = 0; v < sizeof views / sizeof views[0]; v++) {
        const figure *ours = find_figure(stores[0].name, views[v], n);
        if (ours == NULL) die("check", "our own rows are missing");
        for (size_t i = 1; i < n_stores; i++) {
            const figure *f = find_figure(stores[i].name, views[v], n);
            if (f == NULL || strcmp(f->hash, ours->hash) == 0) continue;
            if (equal) fprintf(stderr, "\nbench: stores gave different rows:\n");
            equal = false;
            tell_check(ours);
            tell_check(f);
        }
    }
    if (!equal) die("check", "every store must return the same messages");
}

static size_t largest_n(void) { return options.n[options.n_count - 1]; }

static size_t sync_n(void)
{
    size_t n = options.quick ? options.n[0] : largest_n();
    return n < SYNC_N ? n : SYNC_N;
}

/* Is a mode like this one run beside that N? */
static bool runs_at(const char *mode, size_t n)
{
    bool once = strcmp(mode, "sync") == 0 ||
                (options.quick && strcmp(mode, "read") == 0);
    return !once || n == largest_n();
}

/* Fills all stores that will be read, and checks them. */
static void fill(size_t n)
{
    bool any = false;
    if (!runs_at("read", n)) return;
    for (size_t i = 0; i < n_stores; i++)
        if (runs_in("read", stores[i].name)) {
            run_store(&stores[i], "fill", n, 0);
            run_store(&stores[i], "check", n, 0);
            any = true;
        }
    if (any && stores[0].broken[0] == '\0') compare_checks(n);
}

/* The modes, and the seconds of each: in full, and with --quick (0: not at all). */
static const struct mode {
    const char *name, *like;  /* runs where `like` does */
    double seconds, quick;
} modes[] = {{"append", "append", 3, 0.15}, {"batch", "batch", 3, 0.15},
             {"batch-sync", "batch-sync", 3, 0.15}, {"sync", "sync", 3, 0.1},
             {"read", "read", 0.4, 0.02}, {"open", "read", 1, 1},
             {"open cold", "read", 1, 0}, {"scan", "read", 0.4, 0}};

static void run_modes(size_t n, size_t turn)
{
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        double seconds = options.quick ? modes[m].quick : modes[m].seconds;
        bool sync_mode = strcmp(modes[m].name, "sync") == 0;
        if (seconds <= 0 || !runs_at(modes[m].like, n)) continue;
        for (size_t i = 0; i < n_stores; i++) {
            store *s = &stores[(i + turn) % n_stores];
            if (runs_in(modes[m].like, s->name))
                run_store(s, modes[m].name, sync_mode ? sync_n() : n, seconds);
        }
    }
}

static void empty_folder(void)
{
    remove_tree(folder);
    if (mkdir(folder, 0700) != 0) die(folder, strerror(errno));
}

/* What bench_goals calls the groups that have goals; a group may have two. NULL: a script
 * measures them. */
static const struct group {
    const char *id, *other, *name;
} groups[] = {{"A4", "", "sync"},     {"A5", "", "arena"},   {"A6", "", "slowest"},
              {"A7", "", "threads"},  {"A8", "", "keyed"},   {"R3", "", "hot"},
              {"R5", "", "old"},      {"O1", "", "open"},    {"O2", "", "crash"},
              {"O3", "", "verify"},   {"D1", "", "disk"},    {"D2", "", "many"},
              {"M1", "", "memory"},   {"M2", "", "reader"},  {"C1", "", "beside"},
              {"J1", "", "json"},     {"P1", "", "project"}, {"X1", "X2", NULL}};

enum { GROUPS = sizeof groups / sizeof groups[0] };

static char group_trouble[GROUPS][TEXT];

/* Returns the word that names the program. */
static const char *goals_command(command *c, const struct group *g)
{
    char path[4096];
    memset(c, 0, sizeof *c);
    snprintf(path, sizeof path, "%s/bench_goals", options.build);
    if (g->name == NULL) add_word(c, "bash");
    add_word(c, g->name != NULL ? path : "bench/compile.sh");
    const char *path_word = c->words[c->count - 1];
    add_word(c, "--json");
    add_number(c, "--runs", options.quick ? 1 : (double)options.runs);
    if (g->name == NULL) return path_word;
    add_word(c, "--only"), add_word(c, g->name);
    add_word(c, "--dir"), add_word(c, folder);
    add_number(c, "--n", (double)largest_n());
    return path_word;
}

static void run_groups(void)
{
    for (size_t i = 0; i < GROUPS; i++) {
        const struct group *g = &groups[i];
        command c;
        if (!wanted(g->id) && (g->other[0] == '\0' || !wanted(g->other))) continue;
        const char *path = goals_command(&c, g);
        bool there = access(path, R_OK) == 0;
        progress("goal", g->id, largest_n());
        const char *trouble = there ? run(NULL, &c) : "is not there";
        if (trouble == NULL) continue;
        snprintf(group_trouble[i], TEXT, "%s: %s", strrchr(path, '/') + 1, trouble);
        fprintf(stderr, "bench: goal %s: %s\n", g->id, group_trouble[i]);
        if (there) failed = true;
    }
}


/* ---- tables ---- */

static FILE *json;            /* NULL: none */

static const char *short_n(char out[32], size_t n)
{
    bool mega = n >= 1000000 && n % 1000000 == 0, kilo = n >= 1000 && n % 1000 == 0;
    snprintf(out, 32, "%zu%s", n / (mega ? 1000000 : kilo ? 1000 : 1),
             mega ? "M" : kilo ? "k" : "");
    if (n == 0) out[0] = '\0';
    return out;
}

static void print_figure(figure *f)
{
    f->printed = true;
    double middle = median(f), least = f->values[0], most = f->values[f->count - 1];
    printf("%-24s %-22s %12.5g %-14s (%.5g .. %.5g)\n", f->store, f->what, middle,
           f->unit, least, most);
    if (json == NULL) return;
    fprintf(json,
            "{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s\",\"value\":%.6g,\"unit\":\"%s\","
            "\"least\":%.6g,\"most\":%.6g,\"runs\":%zu}\n",
            f->store, f->n, f->what, middle, f->unit, least, most, f->count);
}

/* The figures of one N that are not printed yet, those of the same kind side by side. */
static void print_figures_of(size_t n)
{
    char text[32];
    bool any = false;
    for (size_t i = 0; i < n_figures; i++)
        for (size_t k = i; k < n_figures; k++) {
            figure *f = &figures[k];
            if (f->printed || f->n != n || f->goal || f->hash[0] != '\0' ||
                strcmp(f->what, figures[i].what) != 0)
                continue;
            if (!any) printf("\n%s messages\n", short_n(text, n));
            any = true;
            print_figure(f);
        }
    fflush(stdout);
}

/* Do the runs differ so much that a ratio says little? f may be NULL. */
static bool unsteady(const figure *f)
{
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; f != NULL && i < f->count; i++) {
        if (f->values[i] < least) least = f->values[i];
        if (f->values[i] > most) most = f->values[i];
    }
    return f != NULL && most > 1.5 * least;
}

/* noted: what is said behind the verdict. */
static void print_goal(const bench_goal *g, const char *which, size_t n, double value,
                       const char *unit, const char *noted)
{
    char size[32], what[2 * TEXT], must[16] = "-", stretch[16] = "-";
    const char *verdict = bench_verdict(g, value);
    snprintf(what, sizeof what, "%s: %s", g->what, which);
    if (g->must > 0) snprintf(must, sizeof must, "%g", g->must);
    if (g->stretch > 0) snprintf(stretch, sizeof stretch, "%g", g->stretch);
    short_n(size, n);
    printf("%-3s %-64s %5s %10.4g %-11s %6s %7s  %-7s %s\n", g->id, what, size, value,
           unit, must, stretch, verdict, noted);
    if (json != NULL)
        fprintf(json,
                "{\"goal\":\"%s\",\"case\":\"%s\",\"n\":%zu,\"value\":%.6g,"
                "\"unit\":\"%s\",\"must\":%g,\"stretch\":%g,\"verdict\":\"%s\"}\n",
                g->id, which, n, value, unit, g->must, g->stretch, verdict);
}

static void print_missing(const char *id, const char *what, const char *why)
{
    printf("%-3s %-64s not measured: %s\n", id, what, why);
    if (json != NULL)
        fprintf(json, "{\"goal\":\"%s\",\"case\":\"%s\",\"verdict\":\"not measured\","
                      "\"why\":\"%s\"}\n", id, what, why);
}

/* Why stores of that name have no figure. */
static const char *why_missing(const char *peer)
{
    for (size_t i = 0; i < n_stores; i++)
        if (begins(stores[i].name, peer))
            return stores[i].broken[0] != '\0' ? stores[i].broken : "there is no figure";
    for (size_t i = 0; i < PROGRAMS; i++)
        if (begins(peer, programs[i].name) && programs[i].missing[0] != '\0')
            return programs[i].missing;
    return begins(peer, "bare") ? programs[1].missing : "no store has that name";
}

/* The best of the stores whose names begin with `peer`. */
static figure *best_of(const char *peer, const char *what, size_t n)
{
    figure *best = NULL;
    for (size_t i = 0; i < n_stores; i++) {
        figure *f = find_figure(stores[i].name, what, n);
        if (f == NULL || !begins(stores[i].name, peer)) continue;
        if (best == NULL || median(f) < median(best)) best = f;
    }
    return best;
}

static void print_ratio(const struct ratio *r, const bench_goal *g, size_t n)
{
    char what[2 * TEXT];
    figure *ours = find_figure(stores[0].name, r->what, n);
    figure *peer = r->peer != NULL ? best_of(r->peer, r->what, n) : NULL;
    const char *name = peer != NULL ? peer->store : r->peer;
    const char *noted = unsteady(ours) || unsteady(peer) ? "unsteady" : "";
    snprintf(what, sizeof what, r->peer != NULL ? "%s, x %s" : "%s", r->what, name);
    if (ours == NULL) print_missing(r->id, what, why_missing(stores[0].name));
    else if (r->peer == NULL)
        print_goal(g, r->what, n, median(ours), ours->unit, noted);
    else if (peer == NULL) print_missing(r->id, what, why_missing(r->peer));
    else print_goal(g, what, n, median(peer) / median(ours), "x", noted);
}

/* The N that is there and nearest to the one that is wanted. */
static size_t nearest_n(size_t want)
{
    size_t best = options.n[0];
    for (size_t i = 1; i < options.n_count; i++) {
        size_t n = options.n[i];
        double off = n > want ? (double)n / (double)want : (double)want / (double)n;
        double now = best > want ? (double)best / (double)want
                                 : (double)want / (double)best;
        if (off < now) best = n;
    }
    return best;
}

static void print_ratios(const char *id)
{
    for (size_t i = 0; i < RATIOS; i++) {
        const struct ratio *r = &ratios[i];
        if (strcmp(r->id, id) != 0) continue;
        const bench_goal *g = bench_goal_find(r->id, r->which);
        if (g == NULL) die(r->which, "goals/table.h has no such row");
        if (strcmp(r->mode, "sync") == 0) print_ratio(r, g, sync_n());
        else if (r->n > 0) print_ratio(r, g, nearest_n(r->n));
        else
            for (size_t k = 0; k < options.n_count; k++)
                if (runs_at(r->mode, options.n[k])) print_ratio(r, g, options.n[k]);
    }
}

/* What bench_goals and the script have measured. */
static void print_lines(const char *id)
{
    for (size_t i = 0; i < n_figures; i++) {
        figure *f = &figures[i];
        if (!f->goal || strcmp(f->store, id) != 0) continue;
        const bench_goal *g = bench_goal_find(id, f->what);
        if (g == NULL) die(f->what, "goals/table.h has no such row");
        if (strcmp(g->unit, f->unit) != 0) die(f->what, "its unit is not the goal's");
        print_goal(g, f->what, f->n, median(f), f->unit, "");
    }
}

static bool has_figure(const bench_goal *g)
{
    for (size_t i = 0; i < RATIOS; i++)
        if (strcmp(ratios[i].id, g->id) == 0 && strcmp(ratios[i].which, g->which) == 0)
            return true;
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].goal && bench_goal_find(figures[i].store, figures[i].what) == g)
            return true;
    return false;
}

/* Rows of the table that nothing has measured. */
static void print_rest(const char *id)
{
    for (size_t i = 0; i < BENCH_GOALS; i++) {
        const bench_goal *g = &bench_goals[i];
        char what[2 * TEXT];
        const char *why = "its program gave no figure";
        if (strcmp(g->id, id) != 0 || has_figure(g)) continue;
        for (size_t k = 0; k < GROUPS; k++)
            if (group_trouble[k][0] != '\0' &&
                (strcmp(groups[k].id, id) == 0 || strcmp(groups[k].other, id) == 0))
                why = group_trouble[k];
        snprintf(what, sizeof what, "%s: %s", g->what, g->which);
        print_missing(id, what, why);
    }
}

static void print_goals(void)
{
    printf("\n%-3s %-64s %5s %10s %-11s %6s %7s  %s\n", "id", "what", "n", "value",
           "unit", "must", "stretch", "verdict");
    for (size_t i = 0; i < BENCH_GOALS; i++) {
        const char *id = bench_goals[i].id;
        bool first = i == 0 || strcmp(bench_goals[i - 1].id, id) != 0;
        if (!first || !wanted(id) || strcmp(id, "log") == 0) continue;
        print_ratios(id);
        print_lines(id);
        print_rest(id);
    }
}

static void print_head(int argc, char **argv)
{
    char text[1024], date[32];
    time_t now = time(NULL);
    const bench_data *d = bench_make(10000);
    bench_machine(text, sizeof text);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    for (int i = 0; i < argc; i++) printf("%s%s", argv[i], i < argc - 1 ? " " : "\n");
    printf("%s, %s\n%zu runs; a message has %.0f bytes of payload and %.0f of names\n",
           date, text, options.runs, d->payload / 10000, d->names / 10000);
    for (size_t i = 0; i < n_stores; i++)
        printf("  %-24s %s\n", stores[i].name, stores[i].notes);
    for (size_t i = 0; i < PROGRAMS; i++)
        if (programs[i].missing[0] != '\0') printf("  %s\n", programs[i].missing);
    if (json != NULL)
        fprintf(json, "{\"date\":\"%s\",\"machine\":\"%s\",\"runs\":%zu,\"quick\":%s}\n",
                date, text, options.runs, options.quick ? "true" : "false");
}

static void print_begin(int argc, char **argv)
{
    if (options.json != NULL) json = fopen(options.json, "w");
    if (options.json != NULL && json == NULL) die(options.json, strerror(errno));
    print_head(argc, argv);
    printf("\n%-24s %-22s %12s %-14s (least .. most)\n", "store", "what", "median",
           "unit");
    fflush(stdout);
}

/* The figures of an N are printed as soon as its runs are done; goals at the end. */
static void measure(void)
{
    for (size_t i = 0; i < options.n_count; i++) {
        fill(options.n[i]);
        sync(); /* else the disk writes the filled files while others are timed */
        for (size_t turn = 0; turn < options.runs; turn++) run_modes(options.n[i], turn);
        empty_folder();
        if (isatty(2)) fprintf(stderr, "\r\033[K");
        print_figures_of(options.n[i]);
    }
    if (sync_n() != largest_n()) print_figures_of(sync_n());
    run_groups();
    if (isatty(2)) fprintf(stderr, "\r\033[K");
}

static void print_end(void)
{
    print_goals();
    if (options.quick)
        printf("\nA quick look: goals for 100k and 1M messages are shown at the nearest "
               "n;\nshort runs are noisy.\n");
    if (json != NULL && fclose(json) != 0) die(options.json, strerror(errno));
}


/* ---- the command line ---- */

static size_t number(const char *text, char **end, size_t least, size_t most)
{
    unsigned long long value = strtoull(text, end, 10);
    if (*end == text || value < least || value > most) {
        fprintf(stderr, "%s: no number that fits\n", text);
        exit(2);
    }
    return (size_t)value;
}

static void read_sizes(char *text)
{
    char *end = text;
    options.n_count = 0;
    for (;; text = end + 1) {
        if (options.n_count == SIZES) exit(2);
        options.n[options.n_count++] = number(text, &end, 1000, 100000000);
        if (*end != ',') break;
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option names[] = {{"quick", no_argument, NULL, 'q'},
                                          {"n", required_argument, NULL, 'n'},
                                          {"runs", required_argument, NULL, 'r'},
                                          {"dir", required_argument, NULL, 'd'},
                                          {"build", required_argument, NULL, 'b'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    static char quick_sizes[] = "20000,100000";
    char *sizes = NULL, *end;
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'q') options.quick = true;
        else if (option == 'n') sizes = optarg;
        else if (option == 'r') options.runs = number(optarg, &end, 1, RUNS);
        else if (option == 'd') options.dir = optarg;
        else if (option == 'b') options.build = optarg;
        else if (option == 'o') options.only = optarg;
        else if (option == 'j') options.json = optarg;
        else exit(2);
    }
    if (sizes == NULL && options.quick) sizes = quick_sizes;
    if (sizes != NULL) read_sizes(sizes);
}

int main(int argc, char **argv)
{
    time_t begun = time(NULL);
    read_options(argc, argv);
    make_folder();
    find_stores();
    print_begin(argc, argv);
    measure();
    print_end();
    printf("\nAll took %.0f s.\n", difftime(time(NULL), begun));
    clean_up();
    return failed ? 1 : 0;
}
