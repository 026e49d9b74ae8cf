/* Several processes at work on one log: writers, beside. */
#define _GNU_SOURCE
#include "goals.h"

#include <unistd.h>

enum { MOST = 4, SHARE = 25000 };  /* writers; appends of one of them */

/* What the processes of one measurement write, in memory that they share. */
typedef struct crew {
    int ready, go, stop;
    uint64_t done[MOST];           /* so far */
    uint64_t spent[MOST];          /* ns of all, or (writers) of the longest */
    uint64_t begun, ended;         /* ns of the clock; ended: the last of them */
    uint64_t left;                 /* 1 + done by the slowest when the first had ended */
} crew;

typedef void crew_work(crew *c, size_t who, size_t n);

/* Waits until all of the crew are ready. */
static uint64_t crew_start(crew *c)
{
    __atomic_add_fetch(&c->ready, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&c->go, __ATOMIC_ACQUIRE)) continue;
    return bench_now();
}

static crew *crew_new(void)
{
    static crew *c;
    if (c == NULL) c = (crew *)bench_shared(sizeof *c);
    memset(c, 0, sizeof *c);
    return c;
}

static pid_t crew_fork(crew *c, size_t who, size_t n, crew_work *work)
{
    pid_t pid = bench_fork();
    if (pid > 0) return pid;
    work(c, who, n);
    _exit(0);
}

/* Starts n processes together, for `us` microseconds or (0) until they end. */
static void crew_run(crew *c, size_t n, const pid_t *pids, unsigned us)
{
    while (__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE) < (int)n) {
        if (bench_ended()) bench_die("one of several", "it ended too early");
        usleep(100);
    }
    c->begun = bench_now();
    __atomic_store_n(&c->go, 1, __ATOMIC_RELEASE);
    if (us > 0) usleep(us);
    __atomic_store_n(&c->stop, us > 0, __ATOMIC_RELEASE);
    for (size_t i = 0; i < n; i++)
        if (bench_wait(pids[i]) != 0) bench_die("one of several", "it failed");
}


/* ---- writers ---- */

static void crew_count(crew *c, size_t who, uint64_t spent)
{
    if (spent > c->spent[who]) c->spent[who] = spent;
    __atomic_store_n(&c->done[who], c->done[who] + 1, __ATOMIC_RELEASE);
}

static void crew_end(crew *c, size_t n)
{
    uint64_t least = SHARE, now = bench_now(), none = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t done = __atomic_load_n(&c->done[i], __ATOMIC_ACQUIRE);
        if (done < least) least = done;
    }
    __atomic_compare_exchange_n(&c->left, &none, least + 1, false, __ATOMIC_ACQ_REL,
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
        uint64_t begin = bench_now();
        append_one(store, (who * SHARE + i) % data->count);
        crew_count(c, who, bench_now() - begin);
    }
    crew_end(c, n);
    ms_close(store);
}

/* Measures the floor: the lock of a file, taken and released; 16 tries at once, then
 * pauses of 50 us. */
static void crew_locks(crew *c, size_t who, size_t n)
{
    const ms_os *os = ms_os_default();
    ms_file file;
    if (os->open(os->ctx, path, MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE, &file) != 0)
        bench_die(path, "it cannot be opened");
    crew_start(c);
    for (size_t i = 0; i < SHARE; i++) {
        uint64_t begin = bench_now();
        for (int tries = 1; os->lock(os->ctx, file) != 0; tries++)
            if (tries > 16) os->sleep(os->ctx, 50);
        os->unlock(os->ctx, file);
        crew_count(c, who, bench_now() - begin);
    }
    crew_end(c, n);
    os->close(os->ctx, file);
}

static void record_crew(const crew *c, size_t n, bool appends)
{
    const char *who = n == 1 ? "writer" : "writers";
    double rate = (double)(n * SHARE) / (double)(c->ended - c->begun) * 1e6;
    uint64_t longest = 0;
    for (size_t i = 0; i < n; i++)
        if (c->spent[i] > longest) longest = c->spent[i];
    if (appends) {
        hold("log", "writers", n * SHARE, rate, "%zu %s, appends", n, who);
        hold("log", "longest", n * SHARE, (double)longest / 1e6,
             "%zu %s, longest append", n, who);
    } else {
        record(0, rate, "1000/s", "  %zu %s, bare locks", n, who);
        record(0, (double)longest / 1e6, "ms", "  %zu %s, longest bare lock", n, who);
    }
    if (n > 1)
        record(0, 100 * (double)(c->left - 1) / SHARE, "%",
               appends ? "%zu writers, share of the slowest"
                       : "  %zu writers, bare, share of the slowest",
               n);
}

/* writers: 1, 2 and 4 processes that append 25,000 messages each to one shared log
 * (ms_log_desc.shared), from an empty file. Shown are the appends of all in a second,
 * and the longest that an append of any took. The share is what the slowest writer had
 * done when the first one ended (100 %: as much). Beside it as many processes that only
 * take and release the lock, with the same tries and pauses. */
void run_writers(void)
{
    ms_close(new_log(false)); /* for the name of the engine */
    for (size_t n = 1; n <= MOST; n *= 2)
        for (int locks = 0; locks < 2; locks++) {
            crew *c = crew_new();
            pid_t pids[MOST];
            bench_remove(path);
            for (size_t i = 0; i < n; i++)
                pids[i] = crew_fork(c, i, n, locks ? crew_locks : crew_appends);
            crew_run(c, n, pids, 0);
            record_crew(c, n, !locks);
            if (locks) continue;
            ms_stat stat;
            ms_error err;
            ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
            must(ms_store_stat(store, &stat, &err), &err);
            ms_close(store);
            if (stat.messages != n * SHARE)
                bench_die("several writers", "messages are missing");
        }
}


/* ---- beside ---- */

static bool stopped(const crew *c) { return __atomic_load_n(&c->stop, __ATOMIC_ACQUIRE); }

/* Appends to locations that are not read, so that the views stay as they are. */
static void pair_write(crew *c, size_t who, size_t n)
{
    ms_error err;
    ms_store *store = open_log(MS_LOG_WRITE, MS_SYNC_NONE, false);
    uint64_t done = 0, begin = crew_start(c);
    for (; !stopped(c); done++) {
        char name[BENCH_NAME];
        ms_envelope m = bench_message(data, done % n);
        memcpy(name, m.location.ptr, BENCH_NAME);
        name[0] = 'L';
        must(ms_append(store, ms_str_n(name, m.location.len), &m, NULL, &err), &err);
    }
    c->spent[who] = bench_now() - begin;
    c->done[who] = done;
    ms_close(store);
}

static void pair_read(crew *c, size_t who, size_t n)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    uint64_t draw = 17, done = 0;
    (void)n;
    for (int i = 0; i < 200; i++)
        read_view(store, CONVERSATION, 0, BENCH_LOCATIONS, &draw);
    uint64_t begin = crew_start(c);
    while (!stopped(c)) done += read_view(store, CONVERSATION, 0, BENCH_LOCATIONS, &draw);
    c->spent[who] = bench_now() - begin;
    c->done[who] = done;
    ms_close(store);
}

/* Runs the writer (0), the reader (1) or both for a while, on a new log. rates[0] and
 * [1] receive messages a microsecond. */
static void pair_run(bool writes, bool reads, double rates[2])
{
    crew *c = crew_new();
    pid_t pids[2];
    size_t n = 0;
    write_log(n_messages < 200000 ? n_messages : 200000);
    if (writes) pids[n++] = crew_fork(c, 0, data->count, pair_write);
    if (reads) pids[n++] = crew_fork(c, 1, data->count, pair_read);
    crew_run(c, n, pids, n_messages < 100000 ? 30000 : quick ? 200000 : 700000);
    if (writes) rates[0] = (double)c->done[0] / (double)c->spent[0] * 1e3;
    if (reads) rates[1] = (double)c->done[1] / (double)c->spent[1] * 1e3;
}

/* beside: a process that appends and one that reads whole conversations, for 0.7 s: each
 * alone, then both. The appends go to other locations than those read. */
void run_beside(void)
{
    double alone[2], both[2];
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        fprintf(stderr, "skipped: beside needs two processors\n");
        return;
    }
    pair_run(true, false, alone);
    pair_run(false, true, alone);
    pair_run(true, true, both);
    record(0, alone[0], "million/s", "writer alone");
    record(0, both[0], "million/s", "  beside a reader");
    hold("C1", "writer", n_messages, both[0] / alone[0],
         "writer beside a reader, to alone");
    record(0, alone[1], "million/s", "reader alone");
    record(0, both[1], "million/s", "  beside a writer");
    hold("C1", "reader", n_messages, both[1] / alone[1],
         "reader beside a writer, to alone");
}
