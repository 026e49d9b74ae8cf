/* Appends that are synced: sync, threads. */
#define _GNU_SOURCE
#include "goals.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static double middle_us(uint64_t *times, size_t n)
{
    bench_sort(times, n);
    return (double)times[n / 2] / 1e3;
}

/* Returns a log of n messages, closed, synced to the disk and opened to append with
 * sync. */
static ms_store *reopened(size_t n, bool drop)
{
    write_log(n);
    bench_settle(path, drop);
    if (drop) bench_read(path);
    return open_log(MS_LOG_WRITE, MS_SYNC_EACH, false);
}

/* Returns microseconds: half of the appends took longer. */
static double measure_sync(bool drop)
{
    static uint64_t times[SYNCED];
    const char *how = drop ? "cache read anew" : "cache as written";
    size_t n = n_synced(), base = n_messages < 100000 ? n_messages : 100000;
    bool disk;
    ms_store *store = reopened(base, drop);
    double before = bench_written_bytes(bench_folder, &disk);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = bench_now();
        append_one(store, i % base);
        times[i] = bench_now() - begin;
    }
    double kib = (bench_written_bytes(bench_folder, NULL) - before) / (double)n / 1024;
    ms_close(store);
    double middle = middle_us(times, n);
    record(0, middle, "us", "sync each, %s", how);
    if (kib > 0)
        hold("A4", drop ? "disk, cache read anew" : "disk, cache as written", n, kib,
             "sync each, %s, %s", how, disk ? "disk" : "dirty");
    return middle;
}

static double measure_bare_sync(void)
{
    static uint64_t times[SYNCED];
    size_t n = n_synced();
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    bench_must(file >= 0, path);
    bench_must(posix_fallocate(file, 0, SYNCED * (BENCH_LARGEST + 64)) == 0, "room");
    bench_settle(path, false);
    double before = bench_written_bytes(bench_folder, NULL);
    for (size_t i = 0; i < n; i++) {
        size_t size = bare_size(i % data->count);
        uint64_t begin = bench_now();
        bench_must(pwrite(file, data->pool, size, at) == (ssize_t)size, "pwrite");
        bench_must(fdatasync(file) == 0, "fdatasync");
        times[i] = bench_now() - begin;
        at += (off_t)size;
    }
    double kib = (bench_written_bytes(bench_folder, NULL) - before) / (double)n / 1024;
    close(file);
    unlink(path);
    double middle = middle_us(times, n);
    record(0, middle, "us", "  bare pwrite and fdatasync");
    if (kib > 0) record(0, kib, "KiB/append", "  bare pwrite and fdatasync, bytes");
    return middle;
}

/* sync: 1000 appends, each synced, to a reopened file of 100,000 messages, once with the
 * page cache as writing left it, once read in anew, in large pieces. Half of the appends
 * take longer than the time shown. The bytes are those that the disk of the folder was
 * asked to write by any process; without a disk that counts, those that this process made
 * dirty. Beside it pwrite and fdatasync into allocated room. */
void run_sync(void)
{
    double written = measure_sync(false), anew = measure_sync(true);
    double bare = measure_bare_sync();
    hold("A4", "x bare, cache as written", n_synced(), bare / written,
         "sync each to bare, as written");
    hold("A4", "x bare, cache read anew", n_synced(), bare / anew,
         "sync each to bare, read anew");
}

enum { THREADS = 8 };

typedef struct thread_job {
    pthread_t thread;
    ms_store *store;
    size_t from, to;
} thread_job;

static void *append_job(void *at)
{
    thread_job *job = (thread_job *)at;
    for (size_t i = job->from; i < job->to; i++) append_one(job->store, i % data->count);
    return NULL;
}

/* Returns synced appends a millisecond, by so many threads of one handle. */
static double synced_rate(size_t threads)
{
    thread_job jobs[THREADS];
    size_t each = n_synced(), base = n_messages < 10000 ? n_messages : 10000;
    ms_store *store = reopened(base, false);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < threads; i++) {
        jobs[i].store = store;
        jobs[i].from = base + i * each;
        jobs[i].to = jobs[i].from + each;
        int code = pthread_create(&jobs[i].thread, NULL, append_job, &jobs[i]);
        bench_must(code == 0, "a thread");
    }
    for (size_t i = 0; i < threads; i++) pthread_join(jobs[i].thread, NULL);
    double spent = bench_since(begin);
    ms_close(store);
    return (double)(threads * each) / spent * 1e6;
}

/* threads: 1000 synced appends by one thread, then as many by each of 8 threads of one
 * handle. */
void run_threads(void)
{
    double one = synced_rate(1), all = synced_rate(THREADS);
    record(0, one, "1000/s", "sync each, 1 thread");
    record(0, all, "1000/s", "sync each, 8 threads");
    hold("A7", "8 threads", n_synced(), all / one, "sync each, 8 threads to 1");
}
