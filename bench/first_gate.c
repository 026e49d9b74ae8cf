/* The first figures of the log file, each against its goal.
 *
 *     first_gate [--n N] [--runs R] [--dir FOLDER] [--only NAME]
 *
 * N is the largest number of messages (1000000), R how often all is measured (5); the
 * files are made new in every run, in a folder of their own inside FOLDER, else
 * $BENCH_DIR, else the current folder, and removed at the end. NAME picks one group:
 *
 *   append   No sync, from an empty file; opening and closing are not counted, room,
 *            pages and index records are. A first round is thrown away, so that the
 *            system has the memory for the pages. Beside it, the envelopes alone, and
 *            bare copies of as many bytes into a map of allocated room, supplied in steps
 *            of 64 KiB.
 *   warm     The same into pages that are there: ms_tick supplies room, pages and index
 *            records between blocks of 64 appends. The blocks are timed, and on a line of
 *            their own the ticks.
 *   slowest  Every append of N timed on its own. Beside it a loop as long that only
 *            copies as many bytes within memory that is there: what the machine takes
 *            away.
 *   sync     Each append synced, 1000 of them into a reopened file of 100000 messages:
 *            once with the page cache as writing left it, once read in anew, in large
 *            pieces. Half of the appends take longer than the time told. The bytes are
 *            those that the disk of the folder was asked to write by anybody, as its file
 *            stat below /sys/dev/block says; without such a disk, those that the process
 *            made dirty. Beside it pwrite and fdatasync into allocated room.
 *   tail     The newest 20 of a view of a location drawn at random, and of the hottest
 *            one, from opening the cursor to closing it. Of each message number, time and
 *            one byte of content are read.
 *   views    A whole view of a location drawn at random, read in the same way.
 *   open     From opening a log that was closed to the newest 20 of a conversation, for a
 *            reader and for a writer. The file is in the page cache.
 *   crash    The same where the writer was killed (SIGKILL) while it appended.
 *   verify   ms_log_verify of the whole file, in the page cache, one thread.
 *   search   A text looked for in all messages of a file of 1074 N bytes (1 GiB for
 *            1000000), in the page cache, one thread: the bytes of the file by the time
 *            of a whole search, without regard to the case of letters. One text that is
 *            nowhere, one of common letters that is nowhere though its words are
 *            everywhere, and one in every 16384th message. Each with a fresh handle,
 *            whose first pass maps the pages and computes the checks, and again with the
 *            same one. Beside it the floor: the file read into a buffer of 256 KiB, and
 *            its map added up by words, the first time with its page faults, and again.
 *   disk     Blocks of the closed file, against the bytes of all fields (payload and 8
 *            bytes of time, location, agent key and type word).
 *   memory   Of a writer that appended N: what RssAnon of /proc/self/status grew by, and
 *            what the handle says that it has allocated.
 *   writers  1, 2 and 4 processes that append 25000 messages each to one log that is
 *            shared (ms_log_desc.shared), from an empty file: appends of all in a second,
 *            the longest that an append of any took, and how much the slowest writer had
 *            done when the first one had done all (its share; 100 %: as much). Beside it
 *            as many processes that only take the lock and give it back, with the same
 *            tries and pauses.
 *   changes  The newest 20 and the whole conversation of locations drawn at random, in
 *            three stores of at most 200000 messages: one without any change, another one
 *            like it, and one in which one location of the 100 (never drawn) has amends
 *            (one for each 100 of its messages) and rewinds (by 10, one for each 1000).
 *            The three take turns, block by block; told are the medians of the blocks and
 *            by how many percent the second and the third are above the first. Then the
 *            same of the changed location itself. Once in logs, once in arena stores.
 *
 * A line tells the median of the runs, and in brackets the least and the most. Files of
 * tail, views, open, verify and disk are read once in full before. Messages: see data.h.
 */
#define _GNU_SOURCE
#define MSGSTORE_NO_DIALECTS
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t n_messages = 1000000;
static size_t n_runs = 5;
static const char *only;
static bench_data *data;
static char folder[4096], path[4096 + 16];
static char others[2][4096 + 16]; /* more logs, of the group changes */
static volatile unsigned long long sink; /* what is read goes here, so that it is read */


/* ---- figures: what was measured in each run ---- */

enum { FIGURES = 128, RUNS = 100 };

typedef struct figure {
    char what[64];
    const char *unit;
    double goal;              /* 0: none */
    bool at_least;            /* a good value is not below the goal */
    size_t count;
    double values[RUNS];
} figure;

static figure figures[FIGURES];
static size_t n_figures;
static bool recording;        /* false while warming up */

static figure *find_figure(const char *what, const char *unit, double goal)
{
    for (size_t i = 0; i < n_figures; i++)
        if (strcmp(figures[i].what, what) == 0) return &figures[i];
    if (n_figures == FIGURES) abort();
    figure *f = &figures[n_figures++];
    snprintf(f->what, sizeof f->what, "%s", what);
    f->unit = unit;
    f->goal = goal;
    return f;
}

static void record(const char *what, double value, const char *unit, double goal)
{
    if (!recording) return;
    figure *f = find_figure(what, unit, goal);
    if (f->count < RUNS) f->values[f->count++] = value;
}

/* The same where more is better. */
static void record_rate(const char *what, double value, const char *unit, double goal)
{
    if (!recording) return;
    record(what, value, unit, goal);
    find_figure(what, unit, goal)->at_least = true;
}

/* "what, 10k" */
static const char *labelled(char out[64], const char *what, size_t n)
{
    bool mega = n >= 1000000 && n % 1000000 == 0, kilo = n >= 1000 && n % 1000 == 0;
    size_t unit = mega ? 1000000 : kilo ? 1000 : 1;
    snprintf(out, 64, "%s, %zu%s", what, n / unit, mega ? "M" : kilo ? "k" : "");
    return out;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_figure(figure *f)
{
    qsort(f->values, f->count, sizeof f->values[0], compare_doubles);
    double value = f->values[f->count / 2];
    bool good = f->at_least ? value >= f->goal : value <= f->goal;
    char goal[32] = "-";
    if (f->goal > 0) snprintf(goal, sizeof goal, "%g", f->goal);
    printf("%-44s %10.3f %-12s %6s  %-6s (%.3f .. %.3f)\n", f->what, value, f->unit, goal,
           f->goal <= 0 ? "-" : good ? "ok" : "below", f->values[0],
           f->values[f->count - 1]);
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

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double since_ns(uint64_t begin)
{
    return (double)(now_ns() - begin);
}


/* ---- what the system tells ---- */

/* The number behind `name` in a file of lines "name: number ..."; -1: not there. */
static double number_in(const char *file, const char *name)
{
    char line[256];
    double number = -1;
    FILE *in = fopen(file, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtod(line + strlen(name), NULL);
    if (in != NULL) fclose(in);
    return number;
}

/* What was freed goes back first, so that taking it again counts. */
static double anonymous_bytes(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    return 1024 * number_in("/proc/self/status", "RssAnon:");
}

/* Bytes that the disk of the folder was asked to write so far; -1: there is no disk. */
static double disk_bytes(void)
{
    struct stat st;
    char file[64];
    unsigned long long sectors[7];
    must_have(stat(folder, &st) == 0, folder);
    snprintf(file, sizeof file, "/sys/dev/block/%u:%u/stat", major(st.st_dev),
             minor(st.st_dev));
    FILE *in = fopen(file, "r");
    if (in == NULL) return -1;
    int got = 0;
    while (got < 7 && fscanf(in, "%llu", &sectors[got]) == 1) got++;
    fclose(in);
    return got == 7 ? 512 * (double)sectors[6] : -1;
}

static double written_bytes(void)
{
    double bytes = disk_bytes();
    return bytes >= 0 ? bytes : number_in("/proc/self/io", "write_bytes:");
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
    double time = 0;
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

static void open_answer_close(ms_log_mode mode, const char *what, size_t n, double goal)
{
    char label[64];
    uint64_t state = n, begin = now_ns();
    ms_store *store = open_log(mode, MS_SYNC_NONE, false);
    size_t got = read_view(store, CONVERSATION, 20, BENCH_LOCATIONS, &state);
    double spent = since_ns(begin);
    if (got == 0 && n >= 10000) die("the first answer", "there is none");
    ms_close(store);
    record(labelled(label, what, n), spent / 1e6, "ms", goal);
}

/* Do `group` and the option --only meet? */
static bool wanted(const char *group)
{
    return only == NULL || strcmp(only, group) == 0;
}


/* ---- append, memory ---- */

static void record_memory(ms_store *store, double before, size_t n)
{
    ms_log_info info;
    ms_error err;
    if (n < n_messages || !wanted("memory")) return;
    must(ms_log_stat(store, &info, &err), &err);
    double grown = (anonymous_bytes() - before) / 1048576;
    double told = (double)info.memory / 1048576;
    char label[64];
    if (before >= 0)
        record(labelled(label, "memory of a writer, RssAnon", n), grown, "MiB", 4);
    record(labelled(label, "memory of a writer, as it says", n), told, "MiB", 4);
}

static void measure_append(size_t n)
{
    char label[64];
    double before = anonymous_bytes();
    ms_store *store = new_log(false);
    uint64_t begin = now_ns();
    append(store, 0, n);
    double each = since_ns(begin) / (double)n;
    if (wanted("append"))
        record(labelled(label, "append, no sync", n), each, "ns/message", 600);
    record_memory(store, before, n);
    ms_close(store);
}

/* The envelopes alone. */
static void measure_envelopes(void)
{
    uint64_t begin = now_ns(), sum = 0;
    for (size_t i = 0; i < n_messages; i++) {
        ms_envelope m = bench_message(data, i);
        sum += (uint64_t)(uintptr_t)m.content.text.ptr + m.location.len;
    }
    double each = since_ns(begin) / (double)n_messages;
    sink += sum;
    record("  the envelopes alone", each, "ns/message", 0);
}

/* What message i is for a bare copy. */
static size_t bare_size(size_t i)
{
    const bench_item *item = &data->items[i];
    return 64 + (item->type == MS_T_ACTION ? data->args[item->at].len : item->len);
}

static void supply(int file, off_t at, off_t size)
{
    int code = posix_fallocate(file, at, size);
    if (code != 0) die("room", strerror(code));
}

/* Copies of the same sizes into a file that is mapped as it grows. */
static void measure_bare_map(size_t n)
{
    enum { WINDOW = 64 << 20, STEP = 64 << 10 };
    const int both = PROT_READ | PROT_WRITE;
    char label[64], *map = NULL;
    size_t at = WINDOW, supplied = WINDOW;
    off_t room = 0;
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must_have(file >= 0, path);
    uint64_t begin = now_ns();
    for (size_t i = 0; i < n; i++) {
        size_t size = bare_size(i);
        if (at + size > WINDOW) {
            if (map != NULL) munmap(map, WINDOW);
            supply(file, room, WINDOW);
            void *fresh = mmap(NULL, WINDOW, both, MAP_SHARED, file, room);
            must_have(fresh != MAP_FAILED, "a map");
            map = (char *)fresh;
            room += WINDOW;
            at = supplied = 0;
        }
        for (; at + size > supplied; supplied += STEP)
            (void)madvise(map + supplied, STEP, MADV_POPULATE_WRITE);
        memcpy(map + at, data->pool + i % 1024, size);
        at += size;
    }
    double each = since_ns(begin) / (double)n;
    munmap(map, WINDOW);
    close(file);
    unlink(path);
    record(labelled(label, "  bare copies into a map", n), each, "ns/message", 0);
}

static void run_append(void)
{
    size_t few = n_messages < 100000 ? n_messages : 100000;
    if (few < n_messages && wanted("append")) measure_append(few);
    measure_append(n_messages);
    if (!wanted("append")) return;
    measure_bare_map(n_messages);
    measure_envelopes();
}


/* ---- warm ---- */

static void run_warm(void)
{
    enum { BLOCK = 64 };
    ms_error err;
    ms_store *store = new_log(true);
    double appending = 0, ticking = 0;
    for (size_t i = 0; i < n_messages; i += BLOCK) {
        uint64_t begin = now_ns();
        must(ms_tick(store, 1000000, &err), &err);
        uint64_t middle = now_ns();
        append(store, i, i + BLOCK < n_messages ? i + BLOCK : n_messages);
        appending += since_ns(middle);
        ticking += (double)(middle - begin);
    }
    ms_close(store);
    record("append, pages are there", appending / (double)n_messages, "ns/message", 200);
    record("  the ticks in between", ticking / (double)n_messages, "ns/message", 0);
}


/* ---- slowest ---- */

static int compare_times(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t as_time(uint64_t ns)
{
    return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static void record_times(const char *what, uint32_t *times, size_t n)
{
    static const struct {
        const char *name;
        double part;
    } rows[] = {{"half", 0.5}, {"99.9 %", 0.999}, {"all", 1}};
    qsort(times, n, sizeof times[0], compare_times);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[64];
        size_t at = (size_t)(rows[i].part * (double)(n - 1));
        snprintf(label, sizeof label, "%s, %s within", what, rows[i].name);
        record(label, times[at] / 1e3, "us", 0);
    }
}

/* Copies like those of a record, each timed, for at least so long. */
static size_t time_copies(uint32_t *times, size_t n, double least_ns)
{
    static char room[8 << 20];
    uint64_t begin = now_ns();
    size_t at = 0, slowest = 0;
    memset(room, 1, sizeof room);
    for (size_t i = 0; i < n || since_ns(begin) < least_ns; i++) {
        size_t size = bare_size(i % n);
        if (at + size > sizeof room) at = 0;
        uint64_t start = now_ns();
        memcpy(room + at, data->pool + i % 1024, size);
        uint32_t spent = as_time(now_ns() - start);
        at += size;
        if (i < n) times[i] = spent;
        else if (spent > slowest) slowest = spent;
    }
    sink += (unsigned char)room[n % sizeof room];
    return slowest;
}

static void run_slowest(void)
{
    static uint32_t *times;
    ms_error err;
    if (times == NULL) times = (uint32_t *)bench_memory(n_messages * sizeof *times);
    ms_store *store = new_log(false);
    uint64_t begin = now_ns();
    for (size_t i = 0; i < n_messages; i++) {
        ms_envelope m = bench_message(data, i);
        uint64_t start = now_ns();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        times[i] = as_time(now_ns() - start);
    }
    double spent = since_ns(begin);
    ms_close(store);
    record_times("single append", times, n_messages);
    size_t later = time_copies(times, n_messages, spent);
    if (later > times[n_messages - 1]) times[n_messages - 1] = (uint32_t)later;
    record_times("  single copy", times, n_messages);
}


/* ---- sync ---- */

enum { SYNCED = 1000 };

/* How many appends are synced: fewer where only little is asked for. */
static size_t n_synced(void)
{
    return n_messages >= 100 * SYNCED ? SYNCED : n_messages / 100;
}

static double middle_time(uint32_t *times, size_t n)
{
    qsort(times, n, sizeof times[0], compare_times);
    return times[n / 2] / 1e3;
}

/* All of the file to the disk, and out of the page cache again. */
static void settle(bool evict)
{
    int file = open(path, O_RDWR);
    must_have(file >= 0, path);
    must_have(fsync(file) == 0, "fsync");
    if (evict) (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
    sync();
}

static void measure_sync(bool evict)
{
    static uint32_t times[SYNCED];
    const char *how = evict ? "cache read anew" : "cache as written";
    char label[64];
    size_t n = n_synced(), base = n_messages < 100000 ? n_messages : 100000;
    ms_error err;
    ms_store *store = new_log(false);
    append(store, 0, base);
    ms_close(store);
    settle(evict);
    if (evict) read_file();
    store = open_log(MS_LOG_WRITE, MS_SYNC_EACH, false);
    double before = written_bytes();
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = bench_message(data, i % base);
        uint64_t begin = now_ns();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        times[i] = as_time(now_ns() - begin);
    }
    double each = (written_bytes() - before) / (double)n / 1024;
    ms_close(store);
    snprintf(label, sizeof label, "sync each, %s", how);
    record(label, middle_time(times, n), "us", 0);
    snprintf(label, sizeof label, "sync each, %s, %s", how,
             disk_bytes() >= 0 ? "disk" : "dirty");
    if (each > 0) record(label, each, "KiB/append", 16);
}

static void measure_bare_sync(void)
{
    static uint32_t times[SYNCED];
    size_t n = n_synced();
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    must_have(file >= 0, path);
    supply(file, 0, SYNCED * (BENCH_LARGEST + 64));
    settle(false);
    double before = written_bytes();
    for (size_t i = 0; i < n; i++) {
        size_t size = bare_size(i % data->count);
        uint64_t begin = now_ns();
        must_have(pwrite(file, data->pool, size, at) == (ssize_t)size, "pwrite");
        must_have(fdatasync(file) == 0, "fdatasync");
        times[i] = as_time(now_ns() - begin);
        at += (off_t)size;
    }
    double each = (written_bytes() - before) / (double)n / 1024;
    close(file);
    unlink(path);
    record("  bare pwrite and fdatasync", middle_time(times, n), "us", 0);
    if (each > 0) record("  bare pwrite and fdatasync, bytes", each, "KiB/append", 0);
}

static void run_sync(void)
{
    measure_sync(false);
    measure_sync(true);
    measure_bare_sync();
}


/* ---- tail, views, open, verify, disk: a file that was closed ---- */

static void measure_tail(ms_store *store, int view, size_t locations)
{
    enum { QUERIES = 100000 };
    char label[64], what[64];
    uint64_t warm = 7, state = 7;
    for (int i = 0; i < 2000; i++) read_view(store, view, 20, locations, &warm);
    uint64_t begin = now_ns();
    for (int i = 0; i < QUERIES; i++) read_view(store, view, 20, locations, &state);
    double each = since_ns(begin) / QUERIES;
    snprintf(what, sizeof what, "newest 20, %s%s", view_names[view],
             locations == 1 ? ", hottest" : "");
    record(labelled(label, what, n_messages), each / 1e3, "us/query", 1);
}

static void run_tail(void)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    for (int view = CONVERSATION; view <= AGENT; view++) {
        measure_tail(store, view, BENCH_LOCATIONS);
        measure_tail(store, view, 1);
    }
    ms_close(store);
}

static void run_views(void)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    for (int view = CONVERSATION; view < VIEWS; view++) {
        char label[64], what[64];
        uint64_t state = 11;
        uint64_t begin = 0;
        size_t rows = 0, least = n_messages / 2;
        for (int round = 0; round < 2; round++) { /* the first one warms up */
            begin = now_ns();
            for (rows = 0; rows < least;)
                rows += read_view(store, view, 0, BENCH_LOCATIONS, &state);
        }
        double each = since_ns(begin) / (double)rows;
        snprintf(what, sizeof what, "view, %s", view_names[view]);
        record(labelled(label, what, n_messages), each, "ns/message", 0);
    }
    ms_close(store);
}

static void run_open(size_t n)
{
    open_answer_close(MS_LOG_READ, "open to answer, reader", n, 1);
    open_answer_close(MS_LOG_WRITE, "open to answer, writer", n, 1);
}

static void run_verify(void)
{
    ms_log_desc desc;
    ms_log_report report;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    uint64_t begin = now_ns();
    must(ms_log_verify(&desc, &report, &err), &err);
    double spent = since_ns(begin);
    if (report.messages != n_messages) die("verify", "messages are missing");
    record_rate("verify", (double)report.bytes / spent, "GB/s", 4);
}

static void run_disk(size_t n)
{
    struct stat st;
    char label[64];
    double fields = (data->payload + data->names) * (double)n / (double)data->count;
    must_have(stat(path, &st) == 0, path);
    record(labelled(label, "bytes on disk / bytes of fields", n),
           (double)st.st_blocks * 512 / fields, "", 1.12);
}

/* ---- search ---- */

enum { RARE = 16384 };            /* one message in so many has the rare text */

/* Appends until the file has so many bytes; returns how many messages have the text. */
static size_t write_searched(uint64_t bytes)
{
    ms_error err;
    ms_stat stat;
    size_t rare = 0;
    ms_store *store = new_log(false);
    memset(&stat, 0, sizeof stat);
    for (size_t i = 0; stat.bytes < bytes; i++) {
        ms_envelope m = bench_message(data, i % data->count);
        if (i % RARE == RARE / 2) {
            m = ms_user_message(ms_text("the answer was: Xylophone, in wood"));
            m.location = bench_name(data->locations[i % BENCH_LOCATIONS]);
            rare++;
        }
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        if (i % 256 == 0) must(ms_store_stat(store, &stat, &err), &err);
    }
    ms_close(store);
    return rare;
}

/* Nanoseconds that a whole search takes. */
static double search(ms_store *store, const char *text, size_t wanted_matches)
{
    static ms_finder finder;
    ms_find_query query;
    ms_found found;
    ms_error err;
    size_t matches = 0;
    memset(&query, 0, sizeof query);
    query.text = bench_name(text);
    uint64_t begin = now_ns();
    must(ms_find_open(store, &query, &finder, &err), &err);
    while (ms_find_next(&finder, &found)) matches++;
    uint64_t looked_at = finder.it.returned;
    must(ms_find_close(&finder, &err), &err);
    double spent = since_ns(begin);
    sink += looked_at;
    if (matches != wanted_matches) die("search", "not as many matches as there are");
    return spent;
}

/* The file read, and its map added up twice. */
static void measure_floor(size_t bytes)
{
    static char piece[256 << 10];
    int file = open(path, O_RDONLY);
    must_have(file >= 0, path);
    uint64_t begin = now_ns();
    while (read(file, piece, sizeof piece) > 0) sink += (unsigned char)piece[0];
    record_rate("  the file read", (double)bytes / since_ns(begin), "GB/s", 0);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    must_have(map != MAP_FAILED, "a map");
    for (int pass = 0; pass < 2; pass++) {
        unsigned long long sum = 0;
        const uint64_t *words = (const uint64_t *)map;
        begin = now_ns();
        for (size_t i = 0; i < bytes / 8; i++) sum += words[i];
        sink += sum;
        record_rate(pass == 0 ? "  its map added up, first time"
                              : "  its map added up, again",
                    (double)bytes / since_ns(begin), "GB/s", 0);
    }
    munmap(map, bytes);
    close(file);
}

static void run_search(void)
{
    static const struct {
        const char *text, *what;
        bool rare;
    } rows[] = {{"zeppelin", "search, nowhere", false},
                {"the rows of the table", "search, common letters", false},
                {"xylophone", "search, rare", true}};
    struct stat st;
    size_t rare = write_searched((uint64_t)n_messages * 1074);
    read_file();
    must_have(stat(path, &st) == 0, path);
    double bytes = (double)st.st_size;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[64];
        size_t matches = rows[i].rare ? rare : 0;
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        double first = search(store, rows[i].text, matches);
        double again = search(store, rows[i].text, matches);
        ms_close(store);
        snprintf(label, sizeof label, "%s, first pass", rows[i].what);
        record_rate(label, bytes / first, "GB/s", 0);
        record_rate(rows[i].what, bytes / again, "GB/s", 3);
    }
    measure_floor((size_t)st.st_size);
}

static void run_closed(size_t n)
{
    ms_store *store = new_log(false);
    append(store, 0, n);
    ms_close(store);
    read_file();
    if (wanted("disk") && n > 10000) run_disk(n);
    if (wanted("open")) run_open(n);
    if (n < n_messages) return;
    if (wanted("tail")) run_tail();
    if (wanted("views")) run_views();
    if (wanted("verify")) run_verify();
}


/* ---- crash ---- */

/* Appends n messages, tells, appends on and waits for its death. */
static void write_until_killed(size_t n, int tell, int wait)
{
    char byte = 1;
    folder[0] = '\0'; /* the parent's to remove */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    ms_store *store = new_log(false);
    append(store, 0, n);
    if (write(tell, &byte, 1) == 1) append(store, 0, n / 16);
    if (read(wait, &byte, 1) < 0) _exit(2);
    _exit(1); /* the parent died first */
}

static void run_crash(size_t n)
{
    int told[2], held[2], status = 0;
    char byte;
    must_have(pipe(told) == 0 && pipe(held) == 0, "pipe");
    child = fork();
    must_have(child >= 0, "fork");
    if (child == 0) {
        close(told[0]);
        close(held[1]);
        write_until_killed(n, told[1], held[0]);
    }
    close(told[1]);
    close(held[0]);
    if (read(told[0], &byte, 1) != 1) die("the writer", "it ended by itself");
    kill(child, SIGKILL);
    must_have(waitpid(child, &status, 0) == child, "waiting for its death");
    if (!WIFSIGNALED(status)) die("the writer", "it was not killed");
    child = 0;
    close(told[0]);
    close(held[1]);
    open_answer_close(MS_LOG_READ, "open after kill, reader", n, 5);
    open_answer_close(MS_LOG_WRITE, "open after kill, writer", n, 5);

    ms_stat stat;
    ms_error err;
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    must(ms_store_stat(store, &stat, &err), &err);
    ms_close(store);
    if (stat.messages < n) die("after the kill", "messages are missing");
}


/* ---- writers ---- */

enum { SHARE = 25000 };           /* appends of one writer */

/* What writers tell; memory that they share. */
typedef struct crew {
    int ready, go;
    uint64_t done[WRITERS_MOST];  /* so far */
    uint64_t slowest[WRITERS_MOST]; /* ns of the longest one */
    uint64_t begun, ended;        /* ns of the clock; ended: the last of them */
    uint64_t behind;              /* done by the slowest when the first had ended, + 1 */
} crew;

static void crew_start(crew *c)
{
    __atomic_add_fetch(&c->ready, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&c->go, __ATOMIC_ACQUIRE)) continue;
}

static void crew_count(crew *c, size_t who, uint64_t spent)
{
    if (spent > c->slowest[who]) c->slowest[who] = spent;
    __atomic_store_n(&c->done[who], c->done[who] + 1, __ATOMIC_RELEASE);
}

static void crew_end(crew *c, size_t n)
{
    uint64_t least = SHARE, now = now_ns(), none = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t done = __atomic_load_n(&c->done[i], __ATOMIC_ACQUIRE);
        if (done < least) least = done;
    }
    __atomic_compare_exchange_n(&c->behind, &none, least + 1, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    for (uint64_t was = __atomic_load_n(&c->ended, __ATOMIC_ACQUIRE); was < now;)
        if (__atomic_compare_exchange_n(&c->ended, &was, now, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            break;
}

static void crew_appends(crew *c, size_t who, size_t n)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.shared = true;
    must(ms_log_open(&store, &desc, &err), &err);
    crew_start(c);
    for (size_t i = 0; i < SHARE; i++) {
        ms_envelope m = bench_message(data, (who * SHARE + i) % data->count);
        uint64_t begin = now_ns();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        crew_count(c, who, now_ns() - begin);
    }
    crew_end(c, n);
    ms_close(store);
}

/* The floor: the lock of a file, taken and given back; 16 tries at once, then pauses of
 * 50 us. */
static void crew_locks(crew *c, size_t who, size_t n)
{
    const ms_os *os = ms_os_default();
    ms_file file;
    if (os->open(os->ctx, path, MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE, &file) != 0)
        die(path, "it cannot be opened");
    crew_start(c);
    for (size_t i = 0; i < SHARE; i++) {
        uint64_t begin = now_ns();
        for (int tries = 1; os->lock(os->ctx, file) != 0; tries++)
            if (tries > 16) os->sleep(os->ctx, 50);
        os->unlock(os->ctx, file);
        crew_count(c, who, now_ns() - begin);
    }
    crew_end(c, n);
    os->close(os->ctx, file);
}

static void crew_member(crew *c, size_t who, size_t n,
                        void (*work)(crew *, size_t, size_t))
{
    folder[0] = '\0'; /* the parent's to remove */
    for (int i = 0; i < WRITERS_MOST; i++) writers[i] = 0;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    work(c, who, n);
    _exit(0);
}

/* n processes begin together; *c tells how it went. */
static void crew_run(crew *c, size_t n, void (*work)(crew *, size_t, size_t))
{
    memset(c, 0, sizeof *c);
    unlink(path);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = fork();
        must_have(pid >= 0, "fork");
        if (pid == 0) crew_member(c, i, n, work);
        writers[i] = pid;
    }
    while (__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE) < (int)n) {
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0) die("a writer", "it ended too early");
        usleep(100);
    }
    c->begun = now_ns();
    __atomic_store_n(&c->go, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < n; i++) {
        int status;
        must_have(waitpid(writers[i], &status, 0) == writers[i], "waiting for a writer");
        writers[i] = 0;
        if (status != 0) die("a writer", "it failed");
    }
}

static void record_crew(const crew *c, size_t n, bool appends)
{
    char label[64];
    const char *who = n == 1 ? "writer" : "writers";
    double rate = (double)(n * SHARE) / (double)(c->ended - c->begun) * 1e6;
    uint64_t slowest = 0;
    for (size_t i = 0; i < n; i++)
        if (c->slowest[i] > slowest) slowest = c->slowest[i];
    snprintf(label, sizeof label, appends ? "%zu %s, appends" : "  %zu %s, bare locks", n,
             who);
    record_rate(label, rate, "1000/s", appends ? 200 : 0);
    snprintf(label, sizeof label,
             appends ? "%zu %s, longest append" : "  %zu %s, longest bare lock", n, who);
    record(label, (double)slowest / 1e6, "ms", appends ? 100 : 0);
    if (n == 1) return;
    snprintf(label, sizeof label,
             appends ? "%zu %s, share of the slowest"
                     : "  %zu %s, bare, share of the slowest",
             n, who);
    record(label, 100 * (double)(c->behind - 1) / SHARE, "%", 0);
}

static void run_writers(void)
{
    static crew *c;
    if (c == NULL) {
        void *memory = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must_have(memory != MAP_FAILED, "shared memory");
        c = (crew *)memory;
    }
    ms_close(new_log(false)); /* tells the engine */
    for (size_t n = 1; n <= WRITERS_MOST; n *= 2) {
        ms_stat stat;
        ms_error err;
        crew_run(c, n, crew_appends);
        record_crew(c, n, true);
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        must(ms_store_stat(store, &stat, &err), &err);
        ms_close(store);
        if (stat.messages != n * SHARE) die("several writers", "messages are missing");
        crew_run(c, n, crew_locks);
        record_crew(c, n, false);
        unlink(path);
    }
}


/* ---- changes ---- */

enum { PLAIN, AGAIN, CHANGED, KINDS, ALTERED = 1, BLOCKS = 99, AT_MOST = 200000 };

/* Appends n messages; with changes in the location ALTERED. */
static void fill(ms_store *store, size_t n, bool change)
{
    static uint64_t seqs[AT_MOST];
    static size_t from[AT_MOST];
    uint64_t state = 5, hidden;
    size_t mine = 0;
    ms_error err;
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = bench_message(data, i);
        must(ms_append(store, m.location, &m, &seqs[mine], &err), &err);
        if (data->items[i].location != ALTERED || !change) continue;
        from[mine++] = i;
        if (mine % 100 == 50) {
            size_t pick = bench_below(&state, mine);
            ms_envelope other = bench_message(data, from[pick]);
            ms_result result = ms_amend(store, seqs[pick], &other, &err);
            if (result != MS_E_HIDDEN) must(result, &err);
        }
        if (mine % 1000 == 0)
            must(ms_rewind(store, m.location, seqs[mine - 11], &hidden, &err), &err);
    }
}

/* Nanoseconds a query (limit 20) or a message (0). */
static double read_block(ms_store *store, size_t limit, bool altered, uint64_t draw,
                         size_t *rows)
{
    size_t queries = limit > 0 ? 2000 : altered ? 8 : 60;
    ms_cursor it;
    ms_error err;
    *rows = 0;
    uint64_t begin = now_ns();
    for (size_t i = 0; i < queries; i++) {
        size_t at = bench_below(&draw, BENCH_LOCATIONS - 1);
        at = altered ? ALTERED : at + (at >= ALTERED);
        ms_str location = bench_name(data->locations[at]);
        must(ms_get_conversation_messages(store, location, limit, &it, &err), &err);
        *rows += read_all(&it);
    }
    return since_ns(begin) / (double)(limit > 0 ? queries : *rows);
}

static void compare_blocks(ms_store *const stores[KINDS], const char *kind, size_t limit,
                           bool altered)
{
    static const char *const names[KINDS] = {"no changes", "again", "changes"};
    static double times[KINDS][BLOCKS];
    char label[64];
    const char *what = limit > 0 ? "newest 20" : "view";
    for (size_t block = 0; block <= BLOCKS; block++) {
        size_t rows[KINDS];
        for (size_t turn = 0; turn < KINDS; turn++) {
            size_t k = (block + turn) % KINDS;
            double spent = read_block(stores[k], limit, altered, block, &rows[k]);
            if (block > 0) times[k][block - 1] = spent; /* the first one warms up */
        }
        if (rows[PLAIN] != rows[AGAIN] || (!altered && rows[PLAIN] != rows[CHANGED]))
            die("changes", "a view has other messages");
    }
    for (size_t k = 0; k < KINDS; k++)
        qsort(times[k], BLOCKS, sizeof times[k][0], compare_doubles);
    double plain = times[PLAIN][BLOCKS / 2];
    snprintf(label, sizeof label, "%s, %s%s, %s", kind, what, altered ? " of one" : "",
             names[PLAIN]);
    record(label, plain, limit > 0 ? "ns/query" : "ns/message", 0);
    for (size_t k = AGAIN; k < KINDS; k++) {
        double value = times[k][BLOCKS / 2];
        bool other = k == CHANGED && !altered;
        snprintf(label, sizeof label, "%s, %s%s, %s", kind, what, altered ? " of it" : "",
                 k == AGAIN ? "the same again" : other ? "others changed" : "changed");
        record(label, 100 * (value / plain - 1), "% more", other ? 3 : 0);
    }
}

static ms_store *changes_log(const char *at, size_t n, bool change)
{
    char kept[sizeof path];
    memcpy(kept, path, sizeof path);
    if (at != path) memcpy(path, at, sizeof path);
    ms_store *store = new_log(false);
    fill(store, n, change);
    ms_close(store);
    read_file();
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    memcpy(path, kept, sizeof path);
    return store;
}

static void run_changes(void)
{
    size_t n = n_messages < AT_MOST ? n_messages : AT_MOST;
    ms_store *stores[KINDS];
    ms_error err;
    for (int arena = 0; arena < 2; arena++) {
        const char *kind = arena ? "arena" : "log";
        for (size_t k = 0; k < KINDS; k++) {
            if (!arena) {
                stores[k] = changes_log(k == 0 ? path : others[k - 1], n, k == CHANGED);
                continue;
            }
            must(ms_mem_open(&stores[k], NULL, &err), &err);
            fill(stores[k], n, k == CHANGED);
        }
        for (int altered = 0; altered < 2; altered++) {
            compare_blocks(stores, kind, 20, altered);
            compare_blocks(stores, kind, 0, altered);
        }
        for (size_t k = 0; k < KINDS; k++) ms_close(stores[k]);
        unlink(others[0]);
        unlink(others[1]);
        unlink(path);
    }
}


/* ---- all of it ---- */

static void run_all(void)
{
    size_t sizes[3] = {10000, 100000, n_messages};
    bool closed = wanted("disk") || wanted("open") || wanted("tail") || wanted("views") ||
                  wanted("verify");
    if (wanted("append") || wanted("memory")) run_append();
    if (wanted("warm")) run_warm();
    if (wanted("slowest")) run_slowest();
    if (wanted("sync")) run_sync();
    for (int i = 0; i < 3; i++)
        if (closed && (i == 2 || sizes[i] < n_messages)) run_closed(sizes[i]);
    if (wanted("search")) run_search();
    for (int i = 0; i < 3; i++)
        if (wanted("crash") && (i == 2 || sizes[i] < n_messages)) run_crash(sizes[i]);
    if (wanted("writers")) run_writers();
    if (wanted("changes")) run_changes();
}

static void print_head(void)
{
    struct utsname system;
    char line[256], *model = line;
    FILE *in = fopen("/proc/cpuinfo", "r");
    snprintf(line, sizeof line, "unknown processor");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "model name", 10) == 0) break;
    if (in != NULL) fclose(in);
    line[strcspn(line, "\n")] = '\0';
    if (strchr(line, ':') != NULL) model = strchr(line, ':') + 2;
    uname(&system);
    printf("%s, %ld processors\n", model, sysconf(_SC_NPROCESSORS_ONLN));
    printf("%s %s, compiler %s\n", system.sysname, system.release, __VERSION__);
    printf("%zu messages, each %.0f bytes of payload and %.0f of names; ", n_messages,
           data->payload / (double)n_messages, data->names / (double)n_messages);
    printf("%zu runs; engine %s\n", n_runs, engine);
    printf("\n%-44s %10s %-12s %6s         (least .. most)\n", "what", "value", "unit",
           "goal");
}

static void make_folder(const char *where)
{
    const char *set = getenv("BENCH_DIR");
    if (where == NULL) where = set != NULL && set[0] != '\0' ? set : ".";
    int len = snprintf(folder, sizeof folder, "%s/first_gate_XXXXXX", where);
    if (len >= (int)sizeof folder || mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        die(where, "no folder can be made there");
    }
    snprintf(path, sizeof path, "%s/gate.msl", folder);
    snprintf(others[0], sizeof others[0], "%s/gate-1.msl", folder);
    snprintf(others[1], sizeof others[1], "%s/gate-2.msl", folder);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}

static size_t number_option(const char *text, size_t least, size_t most)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*end != '\0' || number < least || number > most) die(text, "no number that fits");
    return (size_t)number;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"only", required_argument, NULL, 'o'},
                                            {NULL, 0, NULL, 0}};
    const char *where = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'n') n_messages = number_option(optarg, 1000, 100000000);
        else if (option == 'r') n_runs = number_option(optarg, 1, RUNS);
        else if (option == 'd') where = optarg;
        else if (option == 'o') only = optarg;
        else return 2;
    }
    make_folder(where);
    data = bench_make(n_messages);
    if (wanted("append")) measure_append(n_messages); /* thrown away */
    recording = true;
    for (size_t run = 0; run < n_runs; run++) {
        if (isatty(2)) fprintf(stderr, "run %zu of %zu\r", run + 1, n_runs);
        run_all();
    }
    if (n_figures == 0) die(only != NULL ? only : "nothing", "no group of that name");
    print_head();
    for (size_t i = 0; i < n_figures; i++) print_figure(&figures[i]);
    clean_up();
    return 0;
}
