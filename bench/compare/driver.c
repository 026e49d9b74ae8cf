/* main() of a program that `make bench` runs: one mode, of one store, in one process.
 *
 *     bench_NAME MODE --n N --dir FOLDER [--variant NAME] [--seconds S] [--cold]
 *                [--file FILE] [--count C]
 *
 * The program defines bench_stores. --variant picks one of them; it may be left out when
 * there is only one. N is the number of messages of data.h. Modes:
 *
 *   names       Lists the variants.
 *   messages    Prints the N messages, each a JSON array of the columns and the time.
 *   append      N commits of one message, no sync.
 *   batch       The same in commits of 1000.
 *   batch-sync  The same, each commit synced.
 *   sync        N messages, closed, synced, dropped from the page cache and read anew, like
 *               an old file; then opened, and at most 1000 messages, each a synced commit.
 *               It reports the times of a commit, and the bytes that all processes gave
 *               the folder's disk to write (its file stat below /sys/dev/block); without
 *               such a disk the bytes that the process made dirty.
 *   fill        N messages as fast as possible, and closed: for the modes below. It also
 *               reports the time to close, and the blocks of all files, in bytes a
 *               message.
 *   read        Each view, shallow and deep: nanoseconds a message. Then the times of
 *               single queries (shallow): a clock is read between them.
 *   turns       Reads when it is told, so that another program can let stores take turns:
 *               for each line of stdin, a view's number and microseconds ("1 12000"), it
 *               reads for so long and prints nanoseconds a message, of processor time.
 *               Once at the beginning each message was read, and "ready" printed.
 *   check       A hash over the rows of each view, of all locations, in a fixed order.
 *   open        From opening to the newest 20 of a location; with --cold all files are
 *               dropped from the page cache before.
 *   scan        All messages once: bytes of payload and names by time.
 *   one         One conversation in a new process, which is what an agent reads at its
 *               start: C (50) processes, each for another location, drawn. Nanoseconds a
 *               message with opening ("one shallow") and without it ("one shallow read");
 *               microseconds of opening; page faults and system time of both, a message.
 *   first       Each view of all locations, read once in a new process, without opening.
 *               Of agents all eight in each location; of histories one, drawn.
 *   reclaim     Syncs all files, drops them from the page cache, and reads them again.
 *   compact     Compacts the store: milliseconds, and the blocks of all files.
 *   part        What one and first run: it reads once, and writes a struct part.
 *
 * one and first count processor time, of all threads of the process. Linux counts system
 * time in ticks, so it is right as a sum of many processes only. A page that is not in
 * the process yet costs a fault, and one fault can bring several pages: how many depends
 * on how the file came into the page cache. So the first views of a file that was just
 * written differ from those of one that was reclaimed and read again.
 *
 * Each line on stdout is one JSON object: store, n, what, value, unit. A mode that a
 * store lacks has a member "skip" with the reason. Errors go to stderr, with exit status
 * 1.
 *
 * S bounds the time: append, batch, batch-sync and sync (3 s) count the messages until
 * then; read and scan go on until then (0.4 s for each figure).
 *
 * The files are in a folder of their own inside FOLDER, named after the variant: with N
 * for fill and the modes that read, with the mode otherwise, and then removed at the end.
 * --file adds FILE to that name, and to each figure's: "fresh", or "sessions", which fill
 * writes in the order of bench_by_session. The folder is renamed by reclaim, its FILE is
 * "reclaimed" then, and by compact ("compacted").
 *
 * Memory: a virtual machine may have to get a page from its host at the first touch,
 * which costs many times what the store does. So before a timed append the process
 * touches as much memory as the test needs, and frees it, so that the kernel has pages at
 * hand, for maps, heap and page cache. A first round to be thrown away would do as well,
 * but doubles the time of slow stores and leaves the file system in another state.
 *
 * Reading: the process reads all files once before, and in the mode read each message
 * through the store: a store that checks what it reads for the first time has done so
 * then, and no page is new to the process. It waits for work that a store does
 * in the background after opening, until it uses no more processor time. The locations
 * come in passes over all 100, shuffled, the agent is drawn; the same in all programs.
 * Reading stops after a whole pass, so that each store reads the same mix; a slow one
 * after five times S.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH = 1000,             /* messages of a commit */
    SYNCS = 1000,             /* commits of the mode sync, at most */
    PASSES = 20,              /* over the locations, before the plan begins again */
    TIMES = 20000             /* single queries timed, at most */
};

static struct run {
    const char *mode, *dir, *variant;
    const char *file;         /* "": none */
    const bench_store *store;
    const bench_data *data;
    size_t n;
    double seconds;           /* 0: the mode's own */
    bool cold;
    size_t count;             /* processes of the mode one */
    int view, how;            /* of the mode part */
    size_t location;          /* the same; BENCH_LOCATIONS: all */
    char folder[4096];        /* of this store */
} bench = {.file = "", .count = 50, .location = BENCH_LOCATIONS};

static volatile uint64_t sink; /* values that were read go here, so that no read is
                                * left out */

size_t bench_messages(void) { return bench.n; }

/* Returns the hash (FNV-1a) after a text and its length. */
static uint64_t hash_text(uint64_t hash, ms_str text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001B3);
    return (hash ^ text.len) * UINT64_C(0x100000001B3);
}

void bench_take_hash(bench_reader *reader, const bench_row *row)
{
    for (int i = 0; i < COLUMNS; i++)
        reader->sum = hash_text(reader->sum, row->column[i]);
    reader->sum =
        hash_text(reader->sum, ms_str_n((const char *)&row->time_ns, 8));
}

/* Prints the begin of a line, as far as the figure's name. */
static void tell_what(const char *what)
{
    printf("{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s%s%s\",", bench.store->name,
           bench.n, what, bench.file[0] != '\0' ? ", " : "", bench.file);
}

static void tell(const char *what, double value, const char *unit)
{
    tell_what(what);
    printf("\"value\":%.6g,\"unit\":\"%s\"}\n", value, unit);
}

/* Prints how many rows were read, and a hash or sum that all stores must have. */
static void tell_rows(const char *what, size_t rows, uint64_t hash)
{
    char label[80];
    snprintf(label, sizeof label, "check %s", what);
    tell_what(label);
    printf("\"value\":%zu,\"unit\":\"rows\",\"hash\":\"%016llx\"}\n", rows,
           (unsigned long long)hash);
}


/* ---- files ---- */

/* Names the folder. kept: of the mode fill, else of this mode alone. */
static void name_folder(bool kept)
{
    char tail[64];
    snprintf(tail, sizeof tail, "%zu%s%s", bench.n, bench.file[0] != '\0' ? "-" : "",
             bench.file);
    int len = snprintf(bench.folder, sizeof bench.folder, "%s/%s-%s", bench.dir,
                       bench.store->name, kept ? tail : bench.mode);
    if (len >= (int)sizeof bench.folder) bench_die(bench.dir, "the path is too long");
    for (char *c = bench.folder + strlen(bench.dir); *c != '\0'; c++)
        if (*c == ' ') *c = '_';
}

static void new_folder(bool kept)
{
    name_folder(kept);
    bench_remove(bench.folder);
    bench_must(mkdir(bench.dir, 0700) == 0 || errno == EEXIST, bench.dir);
    bench_must(mkdir(bench.folder, 0700) == 0, bench.folder);
}

/* Names the folder that the mode fill has made. old_folder also brings its files into the
 * page cache. */
static void find_folder(void)
{
    name_folder(true);
    if (access(bench.folder, F_OK) != 0)
        bench_die(bench.folder, "not there, run the mode fill before");
}

static void old_folder(void)
{
    find_folder();
    bench_read(bench.folder);
}

/* Renames the folder to that of another FILE. */
static void rename_folder(const char *file)
{
    char from[sizeof bench.folder];
    memcpy(from, bench.folder, sizeof from);
    bench.file = file;
    name_folder(true);
    bench_remove(bench.folder);
    bench_must(rename(from, bench.folder) == 0, bench.folder);
}

/* Waits until no thread of the process has used the processor for a while; at most 20
 * s. */
static void wait_until_quiet(void)
{
    struct timespec before, after, pause = {0, 50000000};
    for (int quiet = 0, looks = 0; quiet < 3 && looks < 400; looks++) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        double used = (double)(after.tv_sec - before.tv_sec) * 1e9 +
                      (double)(after.tv_nsec - before.tv_nsec);
        quiet = used < 500000 ? quiet + 1 : 0;
    }
}


/* ---- modes that write ---- */

static void print_text(ms_str text)
{
    putchar('"');
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.ptr[i];
        if (byte == '"' || byte == '\\' || byte == '\n') putchar('\\');
        putchar(byte == '\n' ? 'n' : byte);
    }
    putchar('"');
}

static void messages_mode(void)
{
    for (size_t i = 0; i < bench.n; i++) {
        bench_row row = bench_row_of(bench.data, i);
        for (int c = 0; c < COLUMNS; c++) {
            putchar(c == 0 ? '[' : ',');
            print_text(row.column[c]);
        }
        printf(",%lld]\n", (long long)row.time_ns);
    }
}

/* Commits messages [first, first + n), `each` at a time, for at most so many seconds.
 * Returns how many it committed. */
static size_t commit(size_t first, size_t n, size_t each, double seconds)
{
    uint64_t begin = bench_now();
    size_t done = 0, looked = 0;
    while (done < n) {
        size_t count = n - done < each ? n - done : each;
        bench.store->commit(bench.data, first + done, count);
        done += count;
        if (done - looked < 64) continue;
        looked = done;
        if (bench_since(begin) > seconds * 1e9) break;
    }
    return done;
}

static double seconds_or(double otherwise)
{
    return bench.seconds > 0 ? bench.seconds : otherwise;
}

static void append_in(size_t each, int how)
{
    new_folder(false);
    bench_touch(bench.n);
    bench.store->open(bench.folder, OPEN_NEW | how);
    uint64_t begin = bench_now();
    size_t done = commit(0, bench.n, each, seconds_or(3));
    double spent = bench_since(begin);
    bench.store->close();
    bench_remove(bench.folder);
    tell(bench.mode, spent / (double)done, "ns/message");
}

static void sync_mode(void)
{
    static uint64_t times[SYNCS];
    size_t count = 0;
    new_folder(false);
    bench.store->open(bench.folder, OPEN_NEW);
    commit(0, bench.n, BATCH, HUGE_VAL);
    bench.store->close();
    bench_settle(bench.folder, true);
    bench_read(bench.folder);
    bench.store->open(bench.folder, OPEN_WRITE | OPEN_SYNC);
    double bytes = bench_written_bytes(bench.folder, NULL), limit = seconds_or(3) * 1e9;
    uint64_t begin = bench_now(), last = begin;
    while (count < SYNCS && (double)(last - begin) < limit) {
        bench.store->commit(bench.data, bench.n + count, 1);
        uint64_t now = bench_now();
        times[count++] = now - last;
        last = now;
    }
    bytes = (bench_written_bytes(bench.folder, NULL) - bytes) / (double)count;
    bench.store->close();
    bench_remove(bench.folder);
    bench_sort(times, count);
    tell("sync p50", (double)times[count / 2] / 1e3, "us");
    tell("sync p99", (double)times[count * 99 / 100] / 1e3, "us");
    tell("sync mean", (double)(last - begin) / (double)count / 1e3, "us");
    tell("sync device", bytes / 1024, "KiB/commit");
}

static void fill_mode(void)
{
    new_folder(true);
    bench_touch(bench.n);
    bench.store->open(bench.folder, OPEN_NEW);
    uint64_t begin = bench_now();
    commit(0, bench.n, BATCH, HUGE_VAL);
    tell("fill", bench_since(begin) / (double)bench.n, "ns/message");
    begin = bench_now();
    bench.store->close();
    tell("close", bench_since(begin) / 1e6, "ms");
    tell("disk", bench_blocks(bench.folder) / (double)bench.n, "bytes/message");
}

static void compact_mode(void)
{
    find_folder();
    uint64_t begin = bench_now();
    bench.store->compact(bench.folder);
    double spent = bench_since(begin) / 1e6;
    rename_folder("compacted");
    tell("compact", spent, "ms");
    tell("disk", bench_blocks(bench.folder) / (double)bench.n, "bytes/message");
}

static void reclaim_mode(void)
{
    find_folder();
    bench_settle(bench.folder, true);
    bench_read(bench.folder);
    rename_folder("reclaimed");
}


/* ---- modes that read ---- */

static const char *const view_names[VIEWS] = {"tail", "conversation", "agent", "team",
                                               "global", "history"};

typedef struct query {
    size_t location, agent;
} query;

static query plan[PASSES * BENCH_LOCATIONS];

static void make_plan(void)
{
    uint64_t state = 7;
    for (size_t pass = 0; pass < PASSES; pass++) {
        query *turn = plan + pass * BENCH_LOCATIONS;
        for (size_t i = 0; i < BENCH_LOCATIONS; i++) {
            size_t other = bench_below(&state, i + 1);
            turn[i] = turn[other];
            turn[other].location = i;
        }
        for (size_t i = 0; i < BENCH_LOCATIONS; i++)
            turn[i].agent = bench_below(&state, BENCH_AGENTS);
    }
}

static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run_query(int view, const query *q, bench_reader *reader)
{
    bench.store->read(bench.data, view, q->location, q->agent, reader);
}

/* Reads whole passes until `seconds` are over; it stops after five times that. Returns
 * the nanoseconds; reader->rows is the number of rows, *queries of queries. */
static double passes(int view, double seconds, bench_reader *reader,
                           size_t *queries)
{
    size_t i = 0, size = PASSES * BENCH_LOCATIONS;
    double limit = seconds * 1e9, spent = 0;
    uint64_t begin = bench_now();
    for (;;) {
        run_query(view, &plan[i % size], reader);
        if (++i % 10 != 0) continue;
        spent = bench_since(begin);
        if (spent > 5 * limit || (spent > limit && i % BENCH_LOCATIONS == 0)) break;
    }
    sink += reader->sum;
    *queries = i;
    return spent;
}

static void tell_view(int view, const char *what, double value, const char *unit)
{
    char label[64];
    snprintf(label, sizeof label, "%s %s", view_names[view], what);
    tell(label, value, unit);
}

static void tell_rate(int view, int how, double seconds)
{
    bench_reader reader = {how, 0, 0};
    size_t queries;
    double spent = passes(view, seconds, &reader, &queries);
    if (reader.rows == 0) bench_die(view_names[view], "no messages");
    tell_view(view, how == READ_DEEP ? "deep" : "shallow",
                    spent / (double)reader.rows, "ns/message");
    if (how == READ_SHALLOW && bench.file[0] == '\0')
        tell_view(view, "rows", (double)reader.rows / (double)queries,
                        "rows/query");
}

/* Reports the time of each query, from the end of the one before it. */
static void tell_latency(int view, double seconds)
{
    static uint64_t times[TIMES];
    bench_reader reader = {READ_SHALLOW, 0, 0};
    size_t count = 0, size = PASSES * BENCH_LOCATIONS;
    uint64_t begin = bench_now(), last = begin;
    while (count < TIMES && (double)(last - begin) < seconds * 1e9) {
        run_query(view, &plan[count % size], &reader);
        uint64_t now = bench_now();
        times[count++] = now - last;
        last = now;
    }
    sink += reader.sum;
    bench_sort(times, count);
    tell_view(view, "p50", (double)times[count / 2], "ns/query");
    tell_view(view, "p99", (double)times[count * 99 / 100], "ns/query");
}

/* Reads a view of all locations, and of all agents, so that a store has read each of its
 * messages before reading is timed. */
static void read_once(int view)
{
    bench_reader reader = {READ_DEEP, 0, 0};
    query q;
    size_t agents = view == VIEW_AGENT ? BENCH_AGENTS : 1;
    for (q.location = 0; q.location < BENCH_LOCATIONS; q.location++)
        for (q.agent = 0; q.agent < agents; q.agent++) run_query(view, &q, &reader);
    sink += reader.sum;
}

static void read_mode(void)
{
    double seconds = seconds_or(0.4);
    old_folder();
    make_plan();
    bench.store->open(bench.folder, 0);
    wait_until_quiet();
    for (int view = 0; view < VIEWS; view++) read_once(view);
    wait_until_quiet();
    for (int view = 0; view < VIEWS; view++) {
        tell_rate(view, READ_SHALLOW, seconds);
        tell_rate(view, READ_DEEP, seconds);
        if (bench.file[0] == '\0') tell_latency(view, seconds / 2);
    }
    bench.store->close();
}

/* Reads in turns with other processes: for each line of stdin, the number of a view and
 * microseconds, whole passes over some locations for so long. It answers with processor
 * time, in nanoseconds a message. */
static void turns_mode(void)
{
    static size_t at[VIEWS];
    size_t size = PASSES * BENCH_LOCATIONS;
    int view;
    double least;
    old_folder();
    make_plan();
    bench.store->open(bench.folder, 0);
    wait_until_quiet();
    for (view = 0; view < VIEWS; view++) read_once(view);
    printf("ready\n");
    while (fflush(stdout) == 0 && scanf("%d %lf", &view, &least) == 2 && view >= 0 &&
           view < VIEWS) {
        bench_reader reader = {bench.how, 0, 0};
        double begin = processor_ns(), spent = 0;
        while (spent < least * 1e3) {
            for (int i = 0; i < 10; i++)
                run_query(view, &plan[at[view]++ % size], &reader);
            spent = processor_ns() - begin;
        }
        sink += reader.sum;
        printf("%.6g\n", spent / (double)reader.rows);
    }
    bench.store->close();
}

static void check_mode(void)
{
    old_folder();
    bench.store->open(bench.folder, 0);
    wait_until_quiet(); /* what a store does after it was filled is done here */
    for (int view = 0; view < VIEWS; view++) {
        bench_reader reader = {READ_HASH, 0, 0};
        for (size_t i = 0; i < BENCH_LOCATIONS; i++) {
            query q = {i, (7 * i + 3) % BENCH_AGENTS};
            run_query(view, &q, &reader);
        }
        tell_rows(view_names[view], reader.rows, reader.sum);
    }
    bench.store->close();
}

static void open_mode(void)
{
    bench_reader reader = {READ_SHALLOW, 0, 0};
    const query hot = {0, 0};
    old_folder();
    if (bench.cold) bench_settle(bench.folder, true);
    uint64_t begin = bench_now();
    bench.store->open(bench.folder, 0);
    run_query(VIEW_TAIL, &hot, &reader);
    double spent = bench_since(begin) / 1e6;
    if (reader.rows == 0) bench_die("open", "the first answer has no messages");
    bench.store->close();
    tell(bench.cold ? "open cold" : "open warm", spent, "ms");
}


/* ---- reads in new processes ---- */

/* What a process has used, and what it read; also sums of several. */
typedef struct part {
    double open_ns, read_ns;  /* of processor time */
    double system_ns, faults; /* of both */
    size_t rows;
    uint64_t sum;
} part;

/* Adds system time and page faults of the process so far, `sign` times. */
static void add_usage(part *p, int sign)
{
    struct rusage used;
    bench_must(getrusage(RUSAGE_SELF, &used) == 0, "getrusage");
    double system_ns = (double)used.ru_stime.tv_sec * 1e9 +
                       (double)used.ru_stime.tv_usec * 1e3;
    p->system_ns += sign * system_ns;
    p->faults += sign * (double)(used.ru_minflt + used.ru_majflt);
}

/* Runs the queries of a part. */
static void part_queries(bench_reader *reader)
{
    if (bench.location < BENCH_LOCATIONS) {
        query one = {bench.location, 0};
        run_query(bench.view, &one, reader);
        return;
    }
    size_t turns = bench.view == VIEW_AGENT ? BENCH_AGENTS : 1;
    for (size_t turn = 0; turn < turns; turn++)
        for (size_t i = 0; i < BENCH_LOCATIONS; i++) {
            query q = plan[turn * BENCH_LOCATIONS + i];
            if (turns > 1) q.agent = (q.location + turn) % BENCH_AGENTS;
            run_query(bench.view, &q, reader);
        }
}

static void part_mode(void)
{
    bench_reader reader = {bench.how, 0, 0};
    part p;
    memset(&p, 0, sizeof p);
    find_folder();
    make_plan();
    add_usage(&p, -1);
    double begin = processor_ns();
    bench.store->open(bench.folder, 0);
    double opened = processor_ns();
    part_queries(&reader);
    p.read_ns = processor_ns() - opened;
    p.open_ns = opened - begin;
    add_usage(&p, 1);
    bench.store->close();
    p.rows = reader.rows;
    p.sum = reader.sum;
    if (fwrite(&p, sizeof p, 1, stdout) != 1) bench_die("part", "it cannot be written");
}

/* Reads a view in a new process: of one location, or of all. Adds what it used. */
static void run_part(int view, int how, size_t location, part *sum)
{
    int ends[2];
    part p;
    char words[4][32];
    snprintf(words[0], 32, "%zu", bench.n);
    snprintf(words[1], 32, "%d", view);
    snprintf(words[2], 32, "%d", how);
    snprintf(words[3], 32, "%zu", location);
    bench_must(fflush(stdout) == 0 && pipe(ends) == 0, "pipe");
    pid_t child = bench_fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", "part", "part", "--n", words[0], "--view", words[1],
              "--how", words[2], "--location", words[3], "--dir", bench.dir, "--variant",
              bench.store->name, "--file", bench.file, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &p, sizeof p);
    close(ends[0]);
    if (bench_wait(child) != 0 || got != (ssize_t)sizeof p || p.rows == 0)
        bench_die(view_names[view], "a process that reads it has failed");
    sum->open_ns += p.open_ns;
    sum->read_ns += p.read_ns;
    sum->system_ns += p.system_ns;
    sum->faults += p.faults;
    sum->rows += p.rows;
    sum->sum += p.sum;
}

static void tell_one(const char *how, const part *sum)
{
    const struct {
        const char *what, *unit;
        double value;
    } lines[] = {{"", "ns/message", sum->open_ns + sum->read_ns},
                 {" read", "ns/message", sum->read_ns},
                 {" faults", "faults/message", sum->faults},
                 {" system", "ns/message", sum->system_ns}};
    char label[64];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        snprintf(label, sizeof label, "one %s%s", how, lines[i].what);
        tell(label, lines[i].value / (double)sum->rows, lines[i].unit);
    }
    snprintf(label, sizeof label, "one %s open", how);
    tell(label, sum->open_ns / (double)bench.count / 1e3, "us/process");
    snprintf(label, sizeof label, "one %s", how);
    tell_rows(label, sum->rows, sum->sum);
}

static void one_mode(void)
{
    old_folder();
    make_plan();
    for (int how = READ_SHALLOW; how <= READ_DEEP; how++) {
        part sum;
        memset(&sum, 0, sizeof sum);
        for (size_t i = 0; i < bench.count; i++)
            run_part(VIEW_CONVERSATION, how, plan[i].location, &sum);
        tell_one(how == READ_DEEP ? "deep" : "shallow", &sum);
    }
}

/* Reads a view of all locations; returns how many rows. */
static size_t first_read(int view, int how)
{
    char label[64];
    part p;
    memset(&p, 0, sizeof p);
    run_part(view, how, BENCH_LOCATIONS, &p);
    snprintf(label, sizeof label, "first %s %s", view_names[view],
             how == READ_DEEP ? "deep" : "shallow");
    tell(label, p.read_ns / (double)p.rows, "ns/message");
    tell_rows(label, p.rows, p.sum);
    return p.rows;
}

static void first_mode(void)
{
    old_folder();
    for (int how = READ_SHALLOW; how <= READ_DEEP; how++) {
        size_t rows = 0;
        for (int view = VIEW_CONVERSATION; view < VIEWS; view++) {
            size_t got = first_read(view, how);
            if (view != VIEW_TEAM && view != VIEW_HISTORY) rows += got;
        }
        if (rows != bench.n) bench_die("first", "it has not read every message once");
    }
}


/* ---- reads of everything ---- */

static void scan_once(void)
{
    bench_reader reader = {READ_DEEP, 0, 0};
    bench.store->scan(&reader);
    sink += reader.sum;
    if (reader.rows != bench.n) bench_die("scan", "it has not read every message once");
}

static void scan_mode(void)
{
    size_t rounds = 0;
    double limit = seconds_or(0.4) * 1e9, spent = 0;
    old_folder();
    bench.store->open(bench.folder, 0);
    wait_until_quiet();
    scan_once(); /* thrown away */
    uint64_t begin = bench_now();
    for (; spent < limit; rounds++) {
        scan_once();
        spent = bench_since(begin);
    }
    bench.store->close();
    double bytes = bench.data->payload + bench.data->names;
    tell("scan", bytes * (double)rounds / spent, "GB/s");
}


/* ---- the command line ---- */

static void append_mode(void) { append_in(1, 0); }
static void batch_mode(void) { append_in(BATCH, 0); }
static void batch_sync_mode(void) { append_in(BATCH, OPEN_SYNC); }

/* What a mode needs: FIRSTS reads too, and needs no messages, as COMPACTS. */
enum { WRITES, READS, SCANS, FIRSTS, COMPACTS };

static const struct mode {
    const char *name;
    void (*run)(void);
    int does;
} modes[] = {{"messages", messages_mode, WRITES},
             {"append", append_mode, WRITES},
                   {"batch", batch_mode, WRITES},
                   {"batch-sync", batch_sync_mode, WRITES},
                   {"sync", sync_mode, WRITES},
                   {"fill", fill_mode, WRITES},
                   {"read", read_mode, READS},
                   {"check", check_mode, READS},
                   {"turns", turns_mode, READS},
                   {"open", open_mode, READS},
                   {"scan", scan_mode, SCANS},
                   {"one", one_mode, FIRSTS},
                   {"first", first_mode, FIRSTS},
                   {"part", part_mode, FIRSTS},
                   {"reclaim", reclaim_mode, FIRSTS},
                   {"compact", compact_mode, COMPACTS}};

static void usage(void)
{
    fprintf(stderr,
            "usage: MODE --n N --dir FOLDER [--variant NAME] [--seconds S] [--cold]\n"
            "       [--file FILE] [--count C]\n"
            "modes: names messages append batch batch-sync sync fill read turns check open "
            "scan one first reclaim compact\n");
    exit(2);
}

static void pick_variant(void)
{
    for (size_t i = 0; i < bench_n_stores; i++)
        if (bench.variant ? strcmp(bench.variant, bench_stores[i].name) == 0
                          : bench_n_stores == 1)
            bench.store = &bench_stores[i];
    if (bench.store == NULL)
        bench_die(bench.variant != NULL ? bench.variant : "--variant is missing",
                  "no variant; the mode names lists them");
}

static int tell_names(void)
{
    for (size_t i = 0; i < bench_n_stores; i++)
        printf("{\"store\":\"%s\",\"what\":\"name\",\"notes\":\"%s\"}\n",
               bench_stores[i].name, bench_stores[i].notes);
    return 0;
}

static void read_options(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"variant", required_argument, NULL, 'v'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"cold", no_argument, NULL, 'c'},
                                            {"file", required_argument, NULL, 'f'},
                                            {"count", required_argument, NULL, 'C'},
                                            {"view", required_argument, NULL, 'V'},
                                            {"how", required_argument, NULL, 'H'},
                                            {"location", required_argument, NULL, 'L'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'n') bench.n = (size_t)strtoull(optarg, NULL, 10);
        else if (option == 'd') bench.dir = optarg;
        else if (option == 'v') bench.variant = optarg;
        else if (option == 's') bench.seconds = strtod(optarg, NULL);
        else if (option == 'c') bench.cold = true;
        else if (option == 'f') bench.file = optarg;
        else if (option == 'C')
            bench.count = bench_number(optarg, NULL, 1, BENCH_LOCATIONS);
        else if (option == 'V')
            bench.view = (int)bench_number(optarg, NULL, 0, VIEWS - 1);
        else if (option == 'H')
            bench.how = (int)bench_number(optarg, NULL, READ_SHALLOW, READ_DEEP);
        else if (option == 'L')
            bench.location = bench_number(optarg, NULL, 0, BENCH_LOCATIONS);
        else usage();
    }
    if (optind != argc - 1) usage();
    bench.mode = argv[optind];
}

int main(int argc, char **argv)
{
    const struct mode *mode = NULL;
    read_options(argc, argv);
    if (strcmp(bench.mode, "names") == 0) return tell_names();
    if (bench.n == 0 || bench.dir == NULL) usage();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, bench.mode) == 0) mode = &modes[i];
    if (mode == NULL) usage();
    pick_variant();
    if (((mode->does == READS || mode->does == FIRSTS) && bench.store->read == NULL) ||
        (mode->does == SCANS && bench.store->scan == NULL) ||
        (mode->does == COMPACTS && bench.store->compact == NULL)) {
        printf("{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s\",\"skip\":\"it cannot\"}\n",
               bench.store->name, bench.n, bench.mode);
        return 0;
    }
    bench_data *data = mode->does == FIRSTS || mode->does == COMPACTS
                           ? bench_make_names()
                           : bench_make(bench.n + SYNCS);
    if (strcmp(bench.file, "sessions") == 0 && data->count > 0)
        bench_by_session(data, bench.n);
    bench.data = data;
    mode->run();
    return fflush(stdout) == 0 ? 0 : 1;
}
