/* Appends without sync: append, memory, warm, slowest. */
#define _GNU_SOURCE
#include "goals.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void measure_append(size_t n)
{
    double before = anonymous_mib();
    ms_store *store = new_log(false);
    uint64_t begin = bench_now();
    append(store, 0, n);
    double each = bench_since(begin) / (double)n;
    if (wanted("append")) hold("log", "append", n, each, "append, no sync");
    if (wanted("memory") && n == n_messages) {
        if (before >= 0)
            hold("M1", "RssAnon", n, anonymous_mib() - before,
                 "memory of a writer, RssAnon");
        hold("M1", "as it says", n, allocated_mib(store),
             "memory of a writer, as it says");
    }
    ms_close(store);
}

static void measure_envelopes(void)
{
    uint64_t begin = bench_now(), sum = 0;
    for (size_t i = 0; i < n_messages; i++) {
        ms_envelope m = bench_message(data, i);
        sum += (uint64_t)(uintptr_t)m.content.text.ptr + m.location.len;
    }
    double each = bench_since(begin) / (double)n_messages;
    sink += sum;
    record(0, each, "ns/message", "  the envelopes alone");
}

/* Measures copies of the same sizes into a file that is mapped as it grows. */
static void measure_bare_map(size_t n)
{
    enum { WINDOW = 64 << 20, STEP = 64 << 10 };
    const int both = PROT_READ | PROT_WRITE;
    char *map = NULL;
    size_t at = WINDOW, supplied = WINDOW;
    off_t room = 0;
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    bench_must(file >= 0, path);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < n; i++) {
        size_t size = bare_size(i);
        if (at + size > WINDOW) {
            if (map != NULL) munmap(map, WINDOW);
            bench_must(posix_fallocate(file, room, WINDOW) == 0, "room");
            void *fresh = mmap(NULL, WINDOW, both, MAP_SHARED, file, room);
            bench_must(fresh != MAP_FAILED, "a map");
            map = (char *)fresh;
            room += WINDOW;
            at = supplied = 0;
        }
        for (; at + size > supplied; supplied += STEP)
            (void)madvise(map + supplied, STEP, MADV_POPULATE_WRITE);
        memcpy(map + at, data->pool + i % 1024, size);
        at += size;
    }
    double each = bench_since(begin) / (double)n;
    munmap(map, WINDOW);
    close(file);
    unlink(path);
    record(n, each, "ns/message", "  bare copies into a map");
}

/* append: no sync, from an empty file. Opening and closing are not counted; room, pages
 * and index records are. Beside it the envelopes alone, and bare copies of as many
 * bytes into a map of allocated room, supplied in steps of 64 KiB. memory: of the
 * writer that appended them, as the system counts it and as the handle reports it. */
void run_append(void)
{
    if (100000 < n_messages && wanted("append")) measure_append(100000);
    measure_append(n_messages);
    if (!wanted("append")) return;
    measure_bare_map(n_messages);
    measure_envelopes();
}

/* warm: appends into pages that exist. ms_tick supplies room, pages and index records
 * between blocks of 64 appends; blocks and ticks are timed apart. */
void run_warm(void)
{
    enum { BLOCK = 64 };
    ms_error err;
    ms_store *store = new_log(true);
    double appending = 0, ticking = 0;
    for (size_t i = 0; i < n_messages; i += BLOCK) {
        uint64_t begin = bench_now();
        must(ms_tick(store, 1000000, &err), &err);
        uint64_t middle = bench_now();
        append(store, i, i + BLOCK < n_messages ? i + BLOCK : n_messages);
        appending += bench_since(middle);
        ticking += (double)(middle - begin);
    }
    ms_close(store);
    hold("log", "warm", n_messages, appending / (double)n_messages,
         "append, pages are there");
    record(n_messages, ticking / (double)n_messages, "ns/message",
           "  the ticks in between");
}

/* Sorts the times. */
static void record_times(const char *what, uint64_t *times, size_t n)
{
    static const struct {
        const char *name;
        double part;
    } rows[] = {{"half", 0.5}, {"99.9 %", 0.999}, {"all", 1}};
    bench_sort(times, n);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        record(0, (double)times[(size_t)(rows[i].part * (double)(n - 1))] / 1e3, "us",
               "%s, %s within", what, rows[i].name);
}

/* Copies as many bytes within existing memory, each copy timed, for at least that long:
 * this shows what the machine takes away. */
static void time_copies(uint64_t *times, size_t n, double least_ns)
{
    static char room[8 << 20];
    size_t at = 0;
    memset(room, 1, sizeof room);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < n || bench_since(begin) < least_ns; i++) {
        size_t size = bare_size(i % n);
        if (at + size > sizeof room) at = 0;
        uint64_t start = bench_now();
        memcpy(room + at, data->pool + i % 1024, size);
        uint64_t spent = bench_now() - start;
        at += size;
        if (i < n || spent > times[n - 1]) times[i < n ? i : n - 1] = spent;
    }
    sink += (unsigned char)room[n % sizeof room];
}

/* slowest: every append timed on its own, and beside it bare copies. */
void run_slowest(void)
{
    uint64_t *times = (uint64_t *)bench_memory(n_messages * sizeof *times);
    ms_store *store = new_log(false);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < n_messages; i++) {
        uint64_t start = bench_now();
        append_one(store, i);
        times[i] = bench_now() - start;
    }
    double spent = bench_since(begin);
    ms_close(store);
    record_times("single append", times, n_messages);
    hold("A6", "slowest", n_messages, (double)times[n_messages - 1] / 1e6,
         "slowest append of all");
    time_copies(times, n_messages, spent);
    record_times("  single copy", times, n_messages);
    free(times);
}
