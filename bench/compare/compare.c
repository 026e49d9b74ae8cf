/* The comparison: runs the programs of all stores side by side, and prints their figures
 * and a table of the goals.
 *
 *     bench [--quick] [--n N,N] [--runs R] [--dir FOLDER] [--build FOLDER] [--only ID,ID]
 *           [--json FILE]
 *
 * N are numbers of messages (100000,1000000), R is the number of runs (3). The files
 * are in a folder of their own inside --dir, else $BENCH_DIR, else the current folder,
 * and removed at the end. --build names the folder of the programs (build). --only names
 * goals, such as A1,R3: only what they need is run. --json writes all figures and goals
 * to a file too, an object a line. --quick takes 20000 and 100000 messages,
 * short times, only the peers that goals name, reads only beside the largest N, no scan,
 * no cold opening, one run of the goals without a peer, and one short tour, of the
 * smallest N.
 *
 * Every figure comes from a process of its own (see driver.c). For each N all stores
 * are filled, and must give the same rows: bench compares hashes over all views, and ends
 * when one differs. Then each run goes through the modes, and in each mode through the
 * stores, beginning with another store in each run. What counts is the median of the
 * runs; beside it stand the least and the most. A ratio is that of two medians of the
 * same runs, so above 1 ours is faster; "unsteady" means that the most of one of them is
 * over 1.5 times the least. Synced single appends go on a file of at most 100000
 * messages (with --quick of the smallest N), and are run once, beside the largest N.
 *
 * Then each N has its tours, in each run one of each kind of store. The store is filled;
 * new processes read one conversation and the first views; the file is reclaimed,
 * compacted, and written anew session by session (see driver.c). So each file is read
 * just after it was written, while no other store fills the page cache. Hashes are
 * compared for each file, and for each timed read the sums over its bytes.
 *
 * Goals without a peer are measured by bench_goals and compile.sh. A goal that wants an N
 * that is not asked for is shown at the nearest one.
 *
 * A missing program is named; the goals that need it are reported as not measured. Exit
 * status: 0, also when goals are not reached; 1 when a program failed, or stores returned
 * different rows; 2 for wrong options.
 */
#define _GNU_SOURCE
#include "../../msgstore.h"
#include "../goals/table.h"
#include "../system.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUNS = 64,
    SIZES = 8,
    STORES = 32,
    TEXT = 128,               /* room for a name or a reason */
    LINE = 1024,
    SYNC_N = 100000,          /* messages of the file that is synced */
    QUICK_COUNT = 10,         /* conversations that --quick reads, each in a process */
    WHATS = 5,                /* figures of a goal */
    PATIENCE = 1200           /* seconds until a program is given up */
};

static struct options {
    bool quick;
    size_t n[SIZES], n_count, runs;
    const char *dir, *build, *only, *json;
} options = {false, {100000, 1000000}, 2, 3, NULL, "build", NULL, NULL};

static bool failed;           /* a program has failed */


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
    if (f != NULL && strcmp(f->hash, one->hash) != 0)
        bench_die(one->what, "other rows than in an earlier run");
    if (f == NULL) {
        figures = (figure *)realloc(figures, (n_figures + 1) * sizeof *figures);
        if (figures == NULL) bench_die("figures", "no memory");
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

/* Copies the text of a member; "" if absent. */
static void member_text(ms_str object, const char *name, char *out, size_t size)
{
    ms_str value, text = MS_STR("");
    if (ms_json_member(object, ms_str_of(name), &value) &&
        ms_json_string(value, NULL, &text) != MS_OK)
        bench_die(name, "a program wrote a member that is no plain text");
    copy_text(out, size, text);
}

static double member_number(ms_str object, const char *name)
{
    ms_str value;
    double number = 0;
    if (ms_json_member(object, ms_str_of(name), &value) &&
        ms_json_f64(value, &number) != MS_OK)
        bench_die(name, "a program wrote a member that is no number");
    return number;
}

/* A store, and the reasons why its modes have no figures. */
typedef struct store {
    char name[TEXT], notes[256];
    const struct program *program;
    char broken[3 * TEXT];      /* "": it has worked so far */
} store;

static store stores[STORES];
static size_t n_stores;

static void add_store(const struct program *p, ms_str line)
{
    if (n_stores == STORES) bench_die("stores", "too many");
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
    if (ms_json_check(line, NULL, &line, &err) != MS_OK) bench_die(text, err.message);
    if (ms_json_member(line, MS_STR("what"), &what) &&
        ms_json_string_is(what, MS_STR("name")))
        add_store(p, line);
    else take_figure(line);
}


/* ---- programs ---- */

typedef struct program {
    const char *name, *package; /* NULL: nothing beside this project */
    bool script;
    char missing[TEXT];       /* "": installed; else why not */
} program;

static program programs[] = {
    {"msgstore", NULL, false, ""},          {"floor", NULL, false, ""},
    {"sqlite", "libsqlite3-dev", false, ""}, {"lmdb", "liblmdb-dev", false, ""},
    {"leveldb", "libleveldb-dev", false, ""}, {"jsonl", "libcjson-dev", false, ""},
    {"python", "python3", true, ""}};

enum { PROGRAMS = sizeof programs / sizeof programs[0], WORDS = 24 };

/* A command: its words, then NULL. A zeroed command is empty. */
typedef struct command {
    char text[3 * 4096];
    size_t used, count;
    char *words[WORDS];
} command;

static void add_word(command *c, const char *word)
{
    size_t size = strlen(word) + 1;
    if (c->count + 1 >= WORDS || size > sizeof c->text - c->used)
        bench_die(word, "the command is too long");
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

/* Reads lines until the program closes its end; false if it took too long. */
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
        if (used == sizeof text - 1) bench_die(text, "the line is too long");
    }
    return false;
}

/* Runs a program and reads its lines. Returns NULL or the reason of a failure. */
static const char *run(const program *p, command *c)
{
    int ends[2];
    fflush(stdout);
    bench_must(pipe(ends) == 0, "pipe");
    pid_t child = bench_fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execvp(c->words[0], c->words);
        fprintf(stderr, "%s: %s\n", c->words[0], strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    bool done = take_lines(p, ends[0]);
    close(ends[0]);
    if (!done) kill(child, SIGKILL);
    int status = bench_wait(child);
    return !done ? "it took too long" : status != 0 ? "it failed" : NULL;
}

static void progress(const char *what, const char *who, size_t n)
{
    if (isatty(2)) fprintf(stderr, "\r\033[K%s, %s, %zu", what, who, n);
}

/* Writes the path of a store's program. */
static void path_of(const program *p, char path[4096])
{
    if (p->script) snprintf(path, 4096, "bench/compare/%s.py", p->name);
    else snprintf(path, 4096, "%s/bench_%s", options.build, p->name);
}

/* file: which of the store's files, see driver.c; "": the one that has no name. */
static const char *run_mode(const store *s, const char *mode, const char *file, size_t n,
                            double seconds)
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
        add_word(&c, "--dir"), add_word(&c, bench_folder);
        add_word(&c, "--variant"), add_word(&c, s->name);
        if (file[0] != '\0') add_word(&c, "--file"), add_word(&c, file);
        if (s->program->script) add_word(&c, "--build"), add_word(&c, options.build);
    }
    if (options.quick && strcmp(mode, "one") == 0) add_number(&c, "--count", QUICK_COUNT);
    if (seconds > 0) add_number(&c, "--seconds", seconds);
    return run(s->program, &c);
}

/* Finds the stores; names the programs that are missing. */
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
                                  : run_mode(&all, "names", "", 0, 0);
        if (trouble == NULL && n_stores > before) continue;
        snprintf(p->missing, sizeof p->missing, "%s %s%s%s%s", p->name,
                 trouble != NULL ? trouble : "has no stores",
                 p->package != NULL ? " (package " : "",
                 p->package != NULL ? p->package : "", p->package != NULL ? ")" : "");
        fprintf(stderr, "bench: %s: its figures are left out\n", p->missing);
    }
    if (n_stores == 0 || strcmp(stores[0].name, "msgstore") != 0)
        bench_die(options.build, "there is no bench_msgstore that runs");
}


/* ---- goals that are ratios to a peer ---- */

/* For each goal id: the mode and figures that measure it, and the N (0: each). Of a goal
 * that is `ours` they also are the figures without a peer. */
static const struct measured {
    const char *id, *mode, *what[WHATS];
    size_t n;
    bool ours;
} measured[] = {
    {"A1", "append", {"append"}, 0, false},
    {"A2", "batch", {"batch"}, 0, false},
    {"A3", "batch-sync", {"batch-sync"}, 0, false},
    {"A4", "sync", {"sync p50"}, SYNC_N, false},
    {"R1", "read", {"conversation shallow", "agent shallow", "global shallow"}, 100000,
     false},
    {"R2", "read", {"conversation deep", "agent deep", "global deep"}, 1000000, false},
    {"R3", "read", {"tail shallow"}, 0, false},
    {"R4", "read", {"history shallow"}, 0, false},
    {"R8", "one", {"one shallow, fresh", "one deep, fresh"}, 1000000, true},
    {"R9", "one", {"one shallow, compacted", "one deep, compacted"}, 1000000, false},
    {"F1", "first",
     {"first conversation shallow, fresh", "first agent shallow, fresh",
      "first team shallow, fresh", "first global shallow, fresh",
      "first history shallow, fresh"}, 1000000, false},
    {"F2", "first",
     {"first conversation deep, fresh", "first agent deep, fresh",
      "first team deep, fresh", "first global deep, fresh", "first history deep, fresh"},
     1000000, false},
    {"W1", "read", {"conversation shallow", "agent shallow", "history shallow"}, 1000000,
     false},
    {"W2", "read", {"team shallow", "global shallow", "tail shallow"}, 1000000, false}};

enum { MEASURED = sizeof measured / sizeof measured[0] };

static bool wanted(const char *id) { return bench_listed(options.only, id); }

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_ratio(const bench_goal *g, const char *id)
{
    return strcmp(g->id, id) == 0 && g->peer != NULL;
}

/* Returns whether a wanted goal needs this mode of this store. Each goal needs ours. */
static bool needed(const char *mode, const char *name)
{
    for (size_t i = 0; i < MEASURED; i++) {
        if (!wanted(measured[i].id) || strcmp(measured[i].mode, mode) != 0) continue;
        if (strcmp(name, stores[0].name) == 0) return true;
        for (size_t k = 0; k < bench_n_goals; k++)
            if (is_ratio(&bench_goals[k], measured[i].id) &&
                begins(name, bench_goals[k].peer))
                return true;
    }
    return false;
}

/* Returns whether the id's figures without a peer are measured here. */
static bool is_ours(const char *id)
{
    for (size_t i = 0; i < MEASURED; i++)
        if (measured[i].ours && strcmp(measured[i].id, id) == 0) return true;
    return false;
}

/* Returns whether a mode is run. Without --quick and --only every mode is. The floor that
 * is for readers appends as another floor does. */
static bool runs_in(const char *mode, const char *name)
{
    if (strcmp(name, "floor index") == 0 && strcmp(mode, "read") != 0) return false;
    if (!options.quick && options.only == NULL) return true;
    return needed(mode, name);
}


/* ---- measuring ---- */

static void run_store(store *s, const char *mode, const char *file, size_t n,
                      double seconds)
{
    if (s->broken[0] != '\0') return;
    progress(mode, s->name, n);
    const char *trouble = run_mode(s, mode, file, n, seconds);
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

/* Checks that we have checked all rows of a file. */
static void need_checks(const char *file, size_t n)
{
    for (size_t v = 0; v < sizeof views / sizeof views[0]; v++) {
        char what[TEXT];
        snprintf(what, sizeof what, "%s%s%s", views[v], file[0] != '\0' ? ", " : "",
                 file);
        if (find_figure(stores[0].name, what, n) == NULL)
            bench_die(what, "our own rows are missing");
    }
}

/* Checks that all stores answered with the same hashes as ours. */
static void compare_checks(size_t n)
{
    bool equal = true;
    for (size_t i = 0; i < n_figures; i++) {
        const figure *f = &figures[i];
        if (f->n != n || f->hash[0] == '\0') continue;
        const figure *ours = find_figure(stores[0].name, f->what, n);
        if (ours == NULL) bench_die(f->what, "our own rows are missing");
        if (strcmp(f->hash, ours->hash) == 0 && f->values[0] == ours->values[0]) continue;
        if (equal) fprintf(stderr, "\nbench: stores gave different rows:\n");
        equal = false;
        tell_check(ours);
        tell_check(f);
    }
    if (!equal) bench_die("check", "every store must return the same messages");
}

static size_t largest_n(void) { return options.n[options.n_count - 1]; }

static size_t sync_n(void)
{
    size_t n = options.quick ? options.n[0] : largest_n();
    return n < SYNC_N ? n : SYNC_N;
}

/* Returns whether a mode like this one runs beside that N. */
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
            run_store(&stores[i], "fill", "", n, 0);
            run_store(&stores[i], "check", "", n, 0);
            any = true;
        }
    if (!any || stores[0].broken[0] != '\0') return;
    need_checks("", n);
    compare_checks(n);
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
                run_store(s, modes[m].name, "", sync_mode ? sync_n() : n, seconds);
        }
    }
}


/* ---- tours ---- */

/* The stores that a tour is made of. */
static const char *const toured[] = {"msgstore", "floor index", "sqlite tuned",
                                     "lmdb clustered", "leveldb"};

/* The steps of a tour, in their order: a mode, the file that it is run on, and of which
 * mode a goal must be wanted ("": of any of the tour). */
static const struct step {
    const char *mode, *file, *like;
} steps[] = {{"fill", "fresh", ""},          {"check", "fresh", ""},
             {"one", "fresh", "one"},        {"first", "fresh", "first"},
             {"reclaim", "fresh", ""},       {"first", "reclaimed", "first"},
             {"compact", "reclaimed", ""},   {"check", "compacted", ""},
             {"one", "compacted", "one"},    {"fill", "sessions", "first"},
             {"check", "sessions", "first"}, {"first", "sessions", "first"},
             {"read", "sessions", "first"}};

enum { STEPS = sizeof steps / sizeof steps[0] };

static bool in_tour(const char *name)
{
    for (size_t i = 0; i < sizeof toured / sizeof toured[0]; i++)
        if (strcmp(toured[i], name) == 0) return true;
    return false;
}

/* Returns whether a goal is wanted that is measured by the mode, or by any of a tour. */
static bool tour_wanted(const char *mode)
{
    for (size_t i = 0; i < MEASURED; i++) {
        bool one = strcmp(measured[i].mode, "one") == 0;
        bool first = strcmp(measured[i].mode, "first") == 0;
        bool fits = mode[0] == '\0' || strcmp(measured[i].mode, mode) == 0;
        if ((one || first) && fits && wanted(measured[i].id)) return true;
    }
    return false;
}

static bool tours_at(size_t n)
{
    return tour_wanted("") && (!options.quick || n == options.n[0]);
}

static void empty_folder(void)
{
    bench_remove(bench_folder);
    bench_must(mkdir(bench_folder, 0700) == 0, bench_folder);
}

static void tour_store(store *s, size_t n)
{
    for (size_t i = 0; i < STEPS; i++) {
        if (!tour_wanted(steps[i].like)) continue;
        run_store(s, steps[i].mode, steps[i].file, n, options.quick ? 0.02 : 0.4);
        bool writes = strcmp(steps[i].mode, "fill") == 0 ||
                      strcmp(steps[i].mode, "compact") == 0;
        if (writes) sync(); /* else the disk writes while the next step is timed */
    }
    empty_folder();
}

/* Makes the tours of an N, and compares their rows. */
static void run_tours(size_t n)
{
    size_t runs = options.quick ? 1 : options.runs;
    if (!tours_at(n)) return;
    for (size_t turn = 0; turn < runs; turn++)
        for (size_t i = 0; i < n_stores; i++) {
            store *s = &stores[(i + turn) % n_stores];
            if (in_tour(s->name)) tour_store(s, n);
        }
    if (stores[0].broken[0] != '\0') return;
    for (size_t i = 0; i < STEPS; i++)
        if (strcmp(steps[i].mode, "check") == 0 && tour_wanted(steps[i].like))
            need_checks(steps[i].file, n);
    compare_checks(n);
}

/* ---- goals without a peer ---- */

static bool is_first_of_id(size_t i)
{
    return i == 0 || strcmp(bench_goals[i - 1].id, bench_goals[i].id) != 0;
}

/* Returns whether the id has a row that is not a ratio to a peer, nor measured here. */
static bool is_alone(const char *id)
{
    if (is_ours(id)) return false;
    for (size_t i = 0; i < bench_n_goals; i++)
        if (bench_goals[i].peer == NULL && strcmp(bench_goals[i].id, id) == 0)
            return true;
    return false;
}

/* Measures an id without a peer: X1 and X2 by compile.sh, others by bench_goals. */
static void run_alone(const char *id)
{
    bool script = id[0] == 'X';
    char path[4096];
    command c;
    memset(&c, 0, sizeof c);
    snprintf(path, sizeof path, script ? "bench/compile.sh" : "%s/bench_goals",
             options.build);
    if (script) add_word(&c, "bash");
    add_word(&c, path);
    add_word(&c, "--json");
    add_number(&c, "--runs", options.quick ? 1 : (double)options.runs);
    if (!script) {
        add_word(&c, "--only"), add_word(&c, id);
        add_word(&c, "--dir"), add_word(&c, bench_folder);
        add_number(&c, "--n", (double)largest_n());
    }
    progress("goal", id, largest_n());
    bool there = access(path, R_OK) == 0;
    const char *trouble = there ? run(NULL, &c) : "is not there";
    if (trouble == NULL) return;
    fprintf(stderr, "bench: goal %s: %s: %s\n", id, path, trouble);
    if (there) failed = true;
}

static void run_all_alone(void)
{
    for (size_t i = 0; i < bench_n_goals; i++) {
        const char *id = bench_goals[i].id;
        if (!is_first_of_id(i) || strcmp(id, "log") == 0) continue;
        if (strcmp(id, "X2") == 0 && wanted("X1")) continue;
        if (wanted(id) && is_alone(id)) run_alone(id);
    }
}


/* ---- tables ---- */

static FILE *json;            /* NULL: none */

static void print_figure(figure *f)
{
    f->printed = true;
    double middle = median(f), least = f->values[0], most = f->values[f->count - 1];
    printf("%-24s %-38s %12.5g %-14s (%.5g .. %.5g)\n", f->store, f->what, middle,
           f->unit, least, most);
    if (json == NULL) return;
    fprintf(json,
            "{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s\",\"value\":%.6g,\"unit\":\"%s\","
            "\"least\":%.6g,\"most\":%.6g,\"runs\":%zu}\n",
            f->store, f->n, f->what, middle, f->unit, least, most, f->count);
}

/* Prints the new figures of one N, those of the same kind side by side. */
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
            if (!any) printf("\n%s messages\n", bench_short(text, n));
            any = true;
            print_figure(f);
        }
    fflush(stdout);
}

/* Returns whether the runs differ so much that a ratio means little. f may be NULL. */
static bool unsteady(const figure *f)
{
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; f != NULL && i < f->count; i++) {
        if (f->values[i] < least) least = f->values[i];
        if (f->values[i] > most) most = f->values[i];
    }
    return f != NULL && most > 1.5 * least;
}

static void print_goal(const bench_goal *g, const char *what, size_t n, double value,
                       double least, double most, bool noisy)
{
    char text[3 * TEXT], size[32];
    snprintf(text, sizeof text, "%s, %s", what, bench_short(size, n));
    bench_print_line(g, text, value, g->unit, least, most, noisy ? " unsteady" : "");
    if (json != NULL)
        fprintf(json,
                "{\"goal\":\"%s\",\"case\":\"%s\",\"n\":%zu,\"value\":%.6g,"
                "\"unit\":\"%s\",\"must\":%g,\"stretch\":%g,\"verdict\":\"%s\"}\n",
                g->id, what, n, value, g->unit, g->must, g->stretch,
                bench_verdict(g, value));
}

static void print_missing(const bench_goal *g, const char *what, const char *why)
{
    printf("%-3s %-56s not measured: %s\n", g->id, what, why);
    if (json != NULL)
        fprintf(json, "{\"goal\":\"%s\",\"case\":\"%s\",\"verdict\":\"not measured\","
                      "\"why\":\"%s\"}\n", g->id, what, why);
}

/* Returns why stores of that name have no figure. */
static const char *why_missing(const char *peer)
{
    for (size_t i = 0; i < n_stores; i++)
        if (begins(stores[i].name, peer))
            return stores[i].broken[0] != '\0' ? stores[i].broken : "there is no figure";
    for (size_t i = 0; i < PROGRAMS; i++)
        if (begins(peer, programs[i].name) && programs[i].missing[0] != '\0')
            return programs[i].missing;
    return "no store has that name";
}

/* Returns the best of the stores whose names begin with `peer`. */
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

static void print_ratio(const bench_goal *g, const char *what, size_t n)
{
    char text[2 * TEXT];
    figure *ours = find_figure(stores[0].name, what, n);
    figure *peer = best_of(g->peer, what, n);
    snprintf(text, sizeof text, "%s, x %s", what, peer != NULL ? peer->store : g->peer);
    if (ours == NULL || peer == NULL) {
        print_missing(g, text, why_missing(ours == NULL ? stores[0].name : g->peer));
        return;
    }
    double mine = median(ours), theirs = median(peer);
    print_goal(g, text, n, theirs / mine, peer->values[0] / ours->values[ours->count - 1],
               peer->values[peer->count - 1] / ours->values[0],
               unsteady(ours) || unsteady(peer));
}

/* Returns the measured N that is nearest to the wanted one. */
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

/* Prints our figure of a goal without a peer. */
static void print_ours(const bench_goal *g, const char *what, size_t n)
{
    figure *ours = find_figure(stores[0].name, what, n);
    if (ours == NULL) {
        print_missing(g, what, why_missing(stores[0].name));
        return;
    }
    if (strcmp(g->unit, ours->unit) != 0) bench_die(what, "its unit is not the goal's");
    double value = median(ours);
    print_goal(g, what, n, value, ours->values[0], ours->values[ours->count - 1],
               unsteady(ours));
}

static void print_at(const bench_goal *g, const char *what, size_t n)
{
    if (g->peer != NULL) print_ratio(g, what, n);
    else print_ours(g, what, n);
}

/* Prints a goal that is measured here. */
static void print_measured(const bench_goal *g)
{
    for (size_t i = 0; i < MEASURED; i++) {
        const struct measured *m = &measured[i];
        bool tour = strcmp(m->mode, "one") == 0 || strcmp(m->mode, "first") == 0;
        if (strcmp(m->id, g->id) != 0) continue;
        for (size_t w = 0; w < WHATS && m->what[w] != NULL; w++) {
            if (strcmp(m->mode, "sync") == 0) print_at(g, m->what[w], sync_n());
            else if (tour && options.quick) print_at(g, m->what[w], options.n[0]);
            else if (m->n > 0) print_at(g, m->what[w], nearest_n(m->n));
            else
                for (size_t k = 0; k < options.n_count; k++)
                    if (runs_at(m->mode, options.n[k]))
                        print_at(g, m->what[w], options.n[k]);
        }
    }
}

/* Prints what bench_goals and the script have measured. */
static void print_alone(const bench_goal *g)
{
    bool any = false;
    for (size_t i = 0; i < n_figures; i++) {
        figure *f = &figures[i];
        char what[3 * TEXT];
        if (!f->goal || !bench_goal_names(g, f->store, f->what)) continue;
        if (strcmp(g->unit, f->unit) != 0)
            bench_die(f->what, "its unit is not the goal's");
        double middle = median(f);
        snprintf(what, sizeof what, "%s: %s", g->what, g->which);
        print_goal(g, what, f->n, middle, f->values[0], f->values[f->count - 1], false);
        any = true;
    }
    if (!any) print_missing(g, g->which, "its program gave no figure");
}

static void print_goals(void)
{
    bench_print_columns();
    for (size_t i = 0; i < bench_n_goals; i++) {
        const bench_goal *g = &bench_goals[i];
        if (!wanted(g->id) || strcmp(g->id, "log") == 0) continue;
        if (g->peer != NULL || is_ours(g->id)) print_measured(g);
        else print_alone(g);
    }
    bench_print_counts();
}

static void print_head(int argc, char **argv)
{
    char text[1024], date[32];
    time_t now = time(NULL);
    bench_machine(text, sizeof text);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    for (int i = 0; i < argc; i++) printf("%s%s", argv[i], i < argc - 1 ? " " : "\n");
    printf("%s, %s\n%zu runs\n", date, text, options.runs);
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
    if (options.json != NULL && json == NULL) bench_die(options.json, strerror(errno));
    print_head(argc, argv);
    printf("\n%-24s %-38s %12s %-14s (least .. most)\n", "store", "what", "median",
           "unit");
    fflush(stdout);
}

/* Measures all. The figures of an N are printed after its runs; goals at the end. */
static void measure(void)
{
    for (size_t i = 0; i < options.n_count; i++) {
        fill(options.n[i]);
        sync(); /* else the disk writes the filled files while others are timed */
        for (size_t turn = 0; turn < options.runs; turn++) run_modes(options.n[i], turn);
        empty_folder();
        run_tours(options.n[i]);
        if (isatty(2)) fprintf(stderr, "\r\033[K");
        print_figures_of(options.n[i]);
    }
    if (sync_n() != largest_n()) print_figures_of(sync_n());
    run_all_alone();
    if (isatty(2)) fprintf(stderr, "\r\033[K");
}

static void print_end(void)
{
    print_goals();
    if (options.quick)
        printf("\nA quick look: goals for 100k and 1M messages are shown at the nearest "
               "n;\nshort runs are noisy.\n");
    if (json != NULL && fclose(json) != 0) bench_die(options.json, strerror(errno));
}


/* ---- the command line ---- */

static void read_sizes(char *text)
{
    char *end = text;
    options.n_count = 0;
    for (;; text = end + 1) {
        if (options.n_count == SIZES) exit(2);
        options.n[options.n_count++] = bench_number(text, &end, 1000, 100000000);
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
    char *sizes = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'q') options.quick = true;
        else if (option == 'n') sizes = optarg;
        else if (option == 'r') options.runs = bench_number(optarg, NULL, 1, RUNS);
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
    bench_make_folder(options.dir, "bench");
    find_stores();
    print_begin(argc, argv);
    measure();
    print_end();
    printf("\nAll took %.0f s.\n", difftime(time(NULL), begun));
    bench_clean_up();
    return failed ? 1 : 0;
}
