/* main() of a program that `make bench` runs: one mode, of one store, in one process.
 *
 *     bench_NAME MODE --n N --dir FOLDER [--variant NAME] [--seconds S] [--cold]
 *
 * The program defines, before it includes this file as the last one,
 *
 *     static const bench_store bench_stores[] = {...};
 *     static const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
 *
 * and _GNU_SOURCE before its first include. --variant picks one of them; it may be left
 * out when there is only one. N is the number of messages of data.h. Modes:
 *
 *   names       Lists the variants.
 *   append      N commits of one message, no sync.
 *   batch       The same in commits of 1000.
 *   batch-sync  The same, each commit synced.
 *   sync        N messages, closed, synced, dropped from the page cache and read into it
 *               again, as a file is that was there before; then opened and at most 1000
 *               messages, each a synced commit. Told are the times of a commit, and the
 *               bytes that the disk of the folder was asked to write, by anybody, as its
 *               file stat below /sys/dev/block says; without such a disk those that the
 *               process made dirty.
 *   fill        N messages as fast as possible, and closed: for the modes below. Told are
 *               also the time to close, and the blocks of all files, in bytes a message.
 *   read        Each view, shallow and deep: nanoseconds a message. Then the times of
 *               single queries (shallow): a clock is read between them.
 *   check       A hash over the rows of each view, of all locations, in a fixed order.
 *   open        From opening to the newest 20 of a location; with --cold all files are
 *               dropped from the page cache before.
 *   scan        All messages once: bytes of payload and names by time.
 *
 * Each line on stdout is one JSON object: store, n, what, value, unit. What a store
 * cannot do has a member "skip", which says why. Trouble goes to stderr, with exit status
 * 1.
 *
 * S bounds the time: of append, batch, batch-sync and sync (3 s) what was done until then
 * counts; read and scan go on until then (0.4 s for each figure).
 *
 * The files are in a folder of their own inside FOLDER, named after the variant: with N
 * for fill and the modes that read, with the mode otherwise, and then removed at the end.
 *
 * Memory: a virtual machine may have to get a page from its host at the first touch,
 * which costs many times what the store does. So before a timed append the process
 * touches as much memory as the test needs, and frees it, so that the kernel has pages at
 * hand, for maps, heap and page cache. A first round to be thrown away would do as well,
 * but doubles the time of slow stores and leaves the file system in another state.
 *
 * Reading: all files are read once before, and what a store does in the background after
 * opening is waited for: until the process uses no more processor time. The locations
 * come in passes over all 100, shuffled, the agent is drawn; the same in all programs.
 * Reading stops behind a whole pass, so that each store reads the same mix; a slow one
 * after five times S.
 */

#ifndef BENCH_DRIVER_MAIN_H
#define BENCH_DRIVER_MAIN_H

#include "driver.h"
#include "../system.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    BENCH_BATCH = 1000,       /* messages of a commit */
    BENCH_SYNCS = 1000,       /* commits of the mode sync, at most */
    BENCH_PASSES = 20,        /* over the locations, before the plan begins again */
    BENCH_TIMES = 20000       /* single queries timed, at most */
};

static struct bench_main {
    const char *mode, *dir, *variant;
    const bench_store *store;
    const bench_data *data;
    size_t n;
    double seconds;           /* 0: the mode's own */
    bool cold;
    char folder[4096];        /* of this store */
} bench;

static volatile uint64_t bench_sink; /* what is read goes here, so that it is read */

static void bench_must(bool fine, const char *what)
{
    if (!fine) bench_die(what, strerror(errno));
}

static void bench_tell(const char *what, double value, const char *unit)
{
    printf("{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s\",\"value\":%.6g,"
           "\"unit\":\"%s\"}\n",
           bench.store->name, bench.n, what, value, unit);
}

static int bench_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}


/* ---- files ---- */

static int bench_remove_one(const char *path, const struct stat *st, int kind,
                            struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    bench_must(remove(path) == 0, path);
    return 0;
}

static int bench_read_one(const char *path, const struct stat *st, int kind,
                          struct FTW *at)
{
    static char piece[1 << 20];
    (void)at;
    if (kind != FTW_F || !S_ISREG(st->st_mode)) return 0;
    int file = open(path, O_RDONLY);
    bench_must(file >= 0, path);
    while (read(file, piece, sizeof piece) > 0) continue;
    close(file);
    return 0;
}

/* To the disk, and out of the page cache. */
static int bench_drop_one(const char *path, const struct stat *st, int kind,
                          struct FTW *at)
{
    (void)at;
    if (kind != FTW_F || !S_ISREG(st->st_mode)) return 0;
    int file = open(path, O_RDONLY);
    bench_must(file >= 0 && fsync(file) == 0, path);
    bench_must(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
    close(file);
    return 0;
}

static double bench_blocks; /* bytes, summed up by: */

static int bench_count_one(const char *path, const struct stat *st, int kind,
                           struct FTW *at)
{
    (void)path, (void)at;
    if (kind == FTW_F) bench_blocks += 512 * (double)st->st_blocks;
    return 0;
}

static void bench_walk(int (*visit)(const char *, const struct stat *, int, struct FTW *))
{
    bench_must(nftw(bench.folder, visit, 16, FTW_DEPTH | FTW_PHYS) == 0, bench.folder);
}

static void bench_remove(void)
{
    if (access(bench.folder, F_OK) == 0) bench_walk(bench_remove_one);
}

/* kept: of the mode fill, else of this mode alone. */
static void bench_name_folder(bool kept)
{
    char tail[32];
    snprintf(tail, sizeof tail, "%zu", bench.n);
    int len = snprintf(bench.folder, sizeof bench.folder, "%s/%s-%s", bench.dir,
                       bench.store->name, kept ? tail : bench.mode);
    if (len >= (int)sizeof bench.folder) bench_die(bench.dir, "the path is too long");
    for (char *c = bench.folder + strlen(bench.dir); *c != '\0'; c++)
        if (*c == ' ') *c = '_';
}

static void bench_new_folder(bool kept)
{
    bench_name_folder(kept);
    bench_remove();
    bench_must(mkdir(bench.dir, 0700) == 0 || errno == EEXIST, bench.dir);
    bench_must(mkdir(bench.folder, 0700) == 0, bench.folder);
}

/* The folder that the mode fill has made, its files in the page cache. */
static void bench_old_folder(void)
{
    bench_name_folder(true);
    if (access(bench.folder, F_OK) != 0)
        bench_die(bench.folder, "not there, run the mode fill before");
    bench_walk(bench_read_one);
}


/* ---- what the system tells ---- */

/* Touches and frees what n messages take, page cache and copies included. */
static void bench_touch(size_t n)
{
    double room = 1024 * bench_number_in("/proc/meminfo", "MemAvailable:") / 2;
    size_t size = n * 2048 + ((size_t)16 << 20);
    if (room > 0 && (double)size > room) size = (size_t)room;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    bench_must(memory != MAP_FAILED, "memory");
    for (size_t i = 0; i < size; i += 4096) ((volatile char *)memory)[i] = 1;
    munmap(memory, size);
}

/* Until no thread of the process has done anything for a while; at most 20 s. */
static void bench_settle(void)
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

/* Commits messages [first, first + n), `each` at a time, for at most so many seconds;
 * returns how many it has committed. */
static size_t bench_commit(size_t first, size_t n, size_t each, double seconds)
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

static double bench_seconds(double otherwise)
{
    return bench.seconds > 0 ? bench.seconds : otherwise;
}

static void bench_append(size_t each, int how)
{
    bench_new_folder(false);
    bench_touch(bench.n);
    bench.store->open(bench.folder, OPEN_NEW | how);
    uint64_t begin = bench_now();
    size_t done = bench_commit(0, bench.n, each, bench_seconds(3));
    double spent = bench_since(begin);
    bench.store->close();
    bench_remove();
    bench_tell(bench.mode, spent / (double)done, "ns/message");
}

static void bench_sync(void)
{
    static uint64_t times[BENCH_SYNCS];
    size_t count = 0;
    bench_new_folder(false);
    bench.store->open(bench.folder, OPEN_NEW);
    bench_commit(0, bench.n, BENCH_BATCH, HUGE_VAL);
    bench.store->close();
    bench_walk(bench_drop_one);
    sync();
    bench_walk(bench_read_one);
    bench.store->open(bench.folder, OPEN_WRITE | OPEN_SYNC);
    double bytes = bench_written_bytes(bench.folder), limit = bench_seconds(3) * 1e9;
    uint64_t begin = bench_now(), last = begin;
    while (count < BENCH_SYNCS && (double)(last - begin) < limit) {
        bench.store->commit(bench.data, bench.n + count, 1);
        uint64_t now = bench_now();
        times[count++] = now - last;
        last = now;
    }
    bytes = (bench_written_bytes(bench.folder) - bytes) / (double)count;
    bench.store->close();
    bench_remove();
    qsort(times, count, sizeof times[0], bench_compare);
    bench_tell("sync p50", (double)times[count / 2] / 1e3, "us");
    bench_tell("sync p99", (double)times[count * 99 / 100] / 1e3, "us");
    bench_tell("sync mean", (double)(last - begin) / (double)count / 1e3, "us");
    bench_tell("sync device", bytes / 1024, "KiB/commit");
}

static void bench_fill(void)
{
    bench_new_folder(true);
    bench_touch(bench.n);
    bench.store->open(bench.folder, OPEN_NEW);
    uint64_t begin = bench_now();
    bench_commit(0, bench.n, BENCH_BATCH, HUGE_VAL);
    bench_tell("fill", bench_since(begin) / (double)bench.n, "ns/message");
    begin = bench_now();
    bench.store->close();
    bench_tell("close", bench_since(begin) / 1e6, "ms");
    bench_walk(bench_count_one);
    bench_tell("disk", bench_blocks / (double)bench.n, "bytes/message");
}


/* ---- modes that read ---- */

static const char *const bench_views[VIEWS] = {"tail", "conversation", "agent", "team",
                                               "global", "history"};

typedef struct bench_query {
    size_t location, agent;
} bench_query;

static bench_query bench_plan[BENCH_PASSES * BENCH_LOCATIONS];

static void bench_make_plan(void)
{
    uint64_t state = 7;
    for (size_t pass = 0; pass < BENCH_PASSES; pass++) {
        bench_query *plan = bench_plan + pass * BENCH_LOCATIONS;
        for (size_t i = 0; i < BENCH_LOCATIONS; i++) {
            size_t other = bench_below(&state, i + 1);
            plan[i] = plan[other];
            plan[other].location = i;
        }
        for (size_t i = 0; i < BENCH_LOCATIONS; i++)
            plan[i].agent = bench_below(&state, BENCH_AGENTS);
    }
}

static void bench_query_run(int view, const bench_query *q, bench_reader *reader)
{
    bench.store->read(bench.data, view, q->location, q->agent, reader);
}

/* Whole passes until `seconds` have gone by; cut off after five times that. Returns the
 * nanoseconds; reader->rows says how many rows, *queries how many queries. */
static double bench_passes(int view, double seconds, bench_reader *reader,
                           size_t *queries)
{
    size_t i = 0, size = BENCH_PASSES * BENCH_LOCATIONS;
    double limit = seconds * 1e9, spent = 0;
    uint64_t begin = bench_now();
    for (;;) {
        bench_query_run(view, &bench_plan[i % size], reader);
        if (++i % 10 != 0) continue;
        spent = bench_since(begin);
        if (spent > 5 * limit || (spent > limit && i % BENCH_LOCATIONS == 0)) break;
    }
    bench_sink += reader->sum;
    *queries = i;
    return spent;
}

static void bench_tell_view(int view, const char *what, double value, const char *unit)
{
    char label[64];
    snprintf(label, sizeof label, "%s %s", bench_views[view], what);
    bench_tell(label, value, unit);
}

static void bench_rate(int view, int how, double seconds)
{
    bench_reader reader = {how, 0, 0};
    size_t queries;
    double spent = bench_passes(view, seconds, &reader, &queries);
    if (reader.rows == 0) bench_die(bench_views[view], "no messages");
    bench_tell_view(view, how == READ_DEEP ? "deep" : "shallow",
                    spent / (double)reader.rows, "ns/message");
    if (how == READ_SHALLOW)
        bench_tell_view(view, "rows", (double)reader.rows / (double)queries,
                        "rows/query");
}

/* The time of each query: from the end of the one before it. */
static void bench_latency(int view, double seconds)
{
    static uint64_t times[BENCH_TIMES];
    bench_reader reader = {READ_SHALLOW, 0, 0};
    size_t count = 0, size = BENCH_PASSES * BENCH_LOCATIONS;
    uint64_t begin = bench_now(), last = begin;
    while (count < BENCH_TIMES && (double)(last - begin) < seconds * 1e9) {
        bench_query_run(view, &bench_plan[count % size], &reader);
        uint64_t now = bench_now();
        times[count++] = now - last;
        last = now;
    }
    bench_sink += reader.sum;
    qsort(times, count, sizeof times[0], bench_compare);
    bench_tell_view(view, "p50", (double)times[count / 2], "ns/query");
    bench_tell_view(view, "p99", (double)times[count * 99 / 100], "ns/query");
}

static void bench_read(void)
{
    double seconds = bench_seconds(0.4);
    bench_old_folder();
    bench_make_plan();
    bench.store->open(bench.folder, 0);
    bench_settle();
    for (int view = 0; view < VIEWS; view++) { /* thrown away */
        bench_reader reader = {READ_DEEP, 0, 0};
        size_t queries;
        bench_passes(view, seconds / 10, &reader, &queries);
    }
    bench_settle();
    for (int view = 0; view < VIEWS; view++) {
        bench_rate(view, READ_SHALLOW, seconds);
        bench_rate(view, READ_DEEP, seconds);
        bench_latency(view, seconds / 2);
    }
    bench.store->close();
}

static void bench_check(void)
{
    bench_old_folder();
    bench.store->open(bench.folder, 0);
    for (int view = 0; view < VIEWS; view++) {
        bench_reader reader = {READ_HASH, 0, 0};
        for (size_t i = 0; i < BENCH_LOCATIONS; i++) {
            bench_query q = {i, (7 * i + 3) % BENCH_AGENTS};
            bench_query_run(view, &q, &reader);
        }
        printf("{\"store\":\"%s\",\"n\":%zu,\"what\":\"check %s\",\"value\":%zu,"
               "\"unit\":\"rows\",\"hash\":\"%016llx\"}\n",
               bench.store->name, bench.n, bench_views[view], reader.rows,
               (unsigned long long)reader.sum);
    }
    bench.store->close();
}

static void bench_open(void)
{
    bench_reader reader = {READ_SHALLOW, 0, 0};
    const bench_query hot = {0, 0};
    bench_old_folder();
    if (bench.cold) {
        bench_walk(bench_drop_one);
        sync();
        bench_walk(bench_drop_one);
    }
    uint64_t begin = bench_now();
    bench.store->open(bench.folder, 0);
    bench_query_run(VIEW_TAIL, &hot, &reader);
    double spent = bench_since(begin) / 1e6;
    if (reader.rows == 0) bench_die("open", "the first answer has no messages");
    bench.store->close();
    bench_tell(bench.cold ? "open cold" : "open warm", spent, "ms");
}

static void bench_scan_once(void)
{
    bench_reader reader = {READ_DEEP, 0, 0};
    bench.store->scan(&reader);
    bench_sink += reader.sum;
    if (reader.rows != bench.n) bench_die("scan", "it has not read every message once");
}

static void bench_scan(void)
{
    size_t rounds = 0;
    double limit = bench_seconds(0.4) * 1e9, spent = 0;
    bench_old_folder();
    bench.store->open(bench.folder, 0);
    bench_settle();
    bench_scan_once(); /* thrown away */
    uint64_t begin = bench_now();
    for (; spent < limit; rounds++) {
        bench_scan_once();
        spent = bench_since(begin);
    }
    bench.store->close();
    double bytes = bench.data->payload + bench.data->names;
    bench_tell("scan", bytes * (double)rounds / spent, "GB/s");
}


/* ---- the command line ---- */

static void bench_append_mode(void) { bench_append(1, 0); }
static void bench_batch_mode(void) { bench_append(BENCH_BATCH, 0); }
static void bench_batch_sync_mode(void) { bench_append(BENCH_BATCH, OPEN_SYNC); }

enum { BENCH_WRITES, BENCH_READS, BENCH_SCANS };

static const struct bench_mode {
    const char *name;
    void (*run)(void);
    int does;
} bench_modes[] = {{"append", bench_append_mode, BENCH_WRITES},
                   {"batch", bench_batch_mode, BENCH_WRITES},
                   {"batch-sync", bench_batch_sync_mode, BENCH_WRITES},
                   {"sync", bench_sync, BENCH_WRITES},
                   {"fill", bench_fill, BENCH_WRITES},
                   {"read", bench_read, BENCH_READS},
                   {"check", bench_check, BENCH_READS},
                   {"open", bench_open, BENCH_READS},
                   {"scan", bench_scan, BENCH_SCANS}};

static void bench_usage(void)
{
    fprintf(stderr,
            "usage: MODE --n N --dir FOLDER [--variant NAME] [--seconds S] [--cold]\n"
            "modes: names append batch batch-sync sync fill read check open scan\n");
    exit(2);
}

static void bench_pick_variant(void)
{
    for (size_t i = 0; i < bench_n_stores; i++)
        if (bench.variant ? strcmp(bench.variant, bench_stores[i].name) == 0
                          : bench_n_stores == 1)
            bench.store = &bench_stores[i];
    if (bench.store == NULL)
        bench_die(bench.variant != NULL ? bench.variant : "--variant is missing",
                  "no variant; the mode names lists them");
}

static int bench_names(void)
{
    for (size_t i = 0; i < bench_n_stores; i++)
        printf("{\"store\":\"%s\",\"what\":\"name\",\"notes\":\"%s\"}\n",
               bench_stores[i].name, bench_stores[i].notes);
    return 0;
}

static void bench_options(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"variant", required_argument, NULL, 'v'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"cold", no_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'n') bench.n = (size_t)strtoull(optarg, NULL, 10);
        else if (option == 'd') bench.dir = optarg;
        else if (option == 'v') bench.variant = optarg;
        else if (option == 's') bench.seconds = strtod(optarg, NULL);
        else if (option == 'c') bench.cold = true;
        else bench_usage();
    }
    if (optind != argc - 1) bench_usage();
    bench.mode = argv[optind];
}

int main(int argc, char **argv)
{
    const struct bench_mode *mode = NULL;
    bench_options(argc, argv);
    if (strcmp(bench.mode, "names") == 0) return bench_names();
    if (bench.n == 0 || bench.dir == NULL) bench_usage();
    for (size_t i = 0; i < sizeof bench_modes / sizeof bench_modes[0]; i++)
        if (strcmp(bench_modes[i].name, bench.mode) == 0) mode = &bench_modes[i];
    if (mode == NULL) bench_usage();
    bench_pick_variant();
    if ((mode->does == BENCH_READS && bench.store->read == NULL) ||
        (mode->does == BENCH_SCANS && bench.store->scan == NULL)) {
        printf("{\"store\":\"%s\",\"n\":%zu,\"what\":\"%s\",\"skip\":\"it cannot\"}\n",
               bench.store->name, bench.n, bench.mode);
        return 0;
    }
    bench.data = bench_make(bench.n + BENCH_SYNCS);
    mode->run();
    return fflush(stdout) == 0 ? 0 : 1;
}

#endif /* BENCH_DRIVER_MAIN_H */
