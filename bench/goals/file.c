/* Files that are opened, verified, searched and counted: open, verify, disk, crash, many,
 * search. */
#define _GNU_SOURCE
#include "goals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Measures from opening to the newest 20 of a conversation; goal and which name the
 * row. Returns milliseconds. */
static double open_answer_close(bool writer, size_t n, const char *goal,
                                const char *which, const char *what)
{
    uint64_t state = n, begin = bench_now();
    ms_store *store = open_log(writer ? MS_LOG_WRITE : MS_LOG_READ, MS_SYNC_NONE, false);
    size_t got = read_view(store, CONVERSATION, 20, BENCH_LOCATIONS, &state);
    double spent = bench_since(begin) / 1e6;
    if (got == 0 && n >= 10000) bench_die("the first answer", "there is none");
    ms_close(store);
    hold(goal, which, n, spent, "%s, %s", what, writer ? "writer" : "reader");
    return spent;
}

/* open: from opening a log that was closed to the newest 20 of a conversation, for a
 * reader and for a writer. Once with the file in the page cache, once (cold) with the
 * file dropped from it just before. At the largest N also the largest of the times to the
 * least; the sizes of a run come in order. */
static void run_open(size_t n)
{
    static const char *const which[3][2] = {{"warm, reader", "warm, writer"},
                                            {"cold, reader", "cold, writer"},
                                            {"flat, reader", "flat, writer"}};
    static double least[2], most[2];
    for (int w = 0; w < 2; w++) {
        double spent = open_answer_close(w, n, "O1", which[0][w], "open to answer");
        if (least[w] <= 0 || spent < least[w]) least[w] = spent;
        if (spent > most[w]) most[w] = spent;
        if (n < n_messages) continue;
        if (n > 10000)
            hold("O1", which[2][w], n, most[w] / least[w],
                 "open to answer, %s, largest to least", w ? "writer" : "reader");
        least[w] = most[w] = 0;
    }
    for (int w = 0; w < 2; w++) {
        bench_settle(path, true);
        open_answer_close(w, n, "O1", which[1][w], "open to answer, cold");
    }
    bench_read(path);
}

/* verify: ms_log_verify of the whole file, in the page cache, one thread. */
static void run_verify(void)
{
    ms_log_desc desc;
    ms_log_report report;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    uint64_t begin = bench_now();
    must(ms_log_verify(&desc, &report, &err), &err);
    double spent = bench_since(begin);
    if (report.messages != n_messages) bench_die("verify", "messages are missing");
    hold("O3", "verify", n_messages, (double)report.bytes / spent, "verify");
}

/* Runs the groups of closed files, of 10,000 messages, 100,000 and N, each read once in
 * full. disk: blocks of the file against the bytes of all fields (payload and 8 bytes
 * of time, location, agent key and type word). */
void run_closed(void)
{
    size_t sizes[3] = {10000, 100000, n_messages};
    for (int i = 0; i < 3; i++) {
        size_t n = sizes[i];
        if (i < 2 && n >= n_messages) continue;
        write_log(n);
        double fields = (data->payload + data->names) * (double)n / (double)data->count;
        if (wanted("disk") && n > 10000)
            hold("D1", "ratio", n, bench_blocks(path) / fields,
                 "bytes on disk / bytes of fields");
        if (wanted("open")) run_open(n);
    }
    read_closed();
    if (wanted("verify")) run_verify();
}

/* Appends n messages, writes a byte, appends on and waits for its death. */
static void write_until_killed(size_t n, int ready, int wait)
{
    char byte = 1;
    ms_store *store = new_log(false);
    append(store, 0, n);
    if (write(ready, &byte, 1) == 1) append(store, 0, n / 16);
    if (read(wait, &byte, 1) < 0) _exit(2);
    _exit(1); /* the parent died first */
}

static void crash(size_t n)
{
    int ready[2], held[2];
    char byte;
    bench_must(pipe(ready) == 0 && pipe(held) == 0, "pipe");
    pid_t writer = bench_fork();
    if (writer == 0) {
        close(ready[0]);
        close(held[1]);
        write_until_killed(n, ready[1], held[0]);
    }
    close(ready[1]);
    close(held[0]);
    if (read(ready[0], &byte, 1) != 1) bench_die("the writer", "it ended by itself");
    kill(writer, SIGKILL);
    if (!WIFSIGNALED(bench_wait(writer))) bench_die("the writer", "it was not killed");
    close(ready[0]);
    close(held[1]);
    open_answer_close(false, n, "O2", "reader", "open after kill");
    open_answer_close(true, n, "O2", "writer", "open after kill");

    ms_stat stat;
    ms_error err;
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    must(ms_store_stat(store, &stat, &err), &err);
    ms_close(store);
    if (stat.messages < n) bench_die("after the kill", "messages are missing");
}

/* crash: as open, where the writer was killed (SIGKILL) while it appended. */
void run_crash(void)
{
    size_t sizes[3] = {10000, 100000, n_messages};
    for (int i = 0; i < 3; i++)
        if (i == 2 || sizes[i] < n_messages) crash(sizes[i]);
}

/* Returns message i of location `where`: 100 bytes, in turn of the user and of an
 * agent. */
static ms_envelope small_message(size_t i, size_t where, char name[BENCH_NAME])
{
    ms_str text = ms_str_n(data->pool + (i * 101 + where) % (BENCH_POOL - 100), 100);
    ms_envelope m = i % 2 == 0 ? ms_user_message(ms_text_n(text))
                               : ms_observation(ms_text_n(text), ms_str_of(NULL));
    snprintf(name, BENCH_NAME, "place_%08u", (unsigned)(where % 100000000));
    m.location = bench_name(name);
    if (i % 2 == 1) m.agent_key = bench_name(data->agents[where % BENCH_AGENTS]);
    m.has_time = true;
    m.time_ns = (int64_t)(1700000000 + i) * 1000000000;
    return m;
}

/* many: N / 10 locations with 10 messages of 100 bytes each, in ten rounds over all
 * locations, each in the order of a stride that meets all of them: blocks of the file
 * against the bytes of fields and names. */
void run_many(void)
{
    enum { EACH = 10, STRIDE = 1000003 };
    size_t locations = n_messages / EACH;
    double fields = 0;
    ms_error err;
    ms_store *store = new_log(false);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < EACH * locations; i++) {
        char name[BENCH_NAME];
        ms_envelope m = small_message(i / locations, i * STRIDE % locations, name);
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        fields += (double)(m.location.len + m.agent_key.len + m.content.text.len +
                           data->words[m.type].len + sizeof m.time_ns);
    }
    double each = bench_since(begin) / (double)(EACH * locations);
    ms_close(store);
    hold("D2", "ratio", locations, bench_blocks(path) / fields,
         "bytes on disk, locations");
    record(locations, each, "ns/message", "  append to so many locations");
}


/* ---- search ---- */

enum { RARE = 16384 };            /* one message in so many has the rare text */

/* Appends until the file has that size; returns how many messages have the text. */
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

/* Returns nanoseconds of a whole search. */
static double search(ms_store *store, const char *text, size_t expected)
{
    static ms_finder finder;
    ms_find_query query;
    ms_found found;
    ms_error err;
    size_t matches = 0;
    memset(&query, 0, sizeof query);
    query.text = bench_name(text);
    uint64_t begin = bench_now();
    must(ms_find_open(store, &query, &finder, &err), &err);
    while (ms_find_next(&finder, &found)) matches++;
    must(ms_find_close(&finder, &err), &err);
    double spent = bench_since(begin);
    if (matches != expected) bench_die("search", "not as many matches as there are");
    return spent;
}

/* Measures the floor: the file read into a buffer, and its map added up twice. */
static void measure_floor(size_t bytes)
{
    static char piece[256 << 10];
    int file = open(path, O_RDONLY);
    bench_must(file >= 0, path);
    uint64_t begin = bench_now();
    while (read(file, piece, sizeof piece) > 0) sink += (unsigned char)piece[0];
    record(0, (double)bytes / bench_since(begin), "GB/s", "  the file read");
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    bench_must(map != MAP_FAILED, "a map");
    for (int pass = 0; pass < 2; pass++) {
        unsigned long long sum = 0;
        const uint64_t *words = (const uint64_t *)map;
        begin = bench_now();
        for (size_t i = 0; i < bytes / 8; i++) sum += words[i];
        sink += sum;
        record(0, (double)bytes / bench_since(begin), "GB/s", "  its map added up, %s",
               pass == 0 ? "first time" : "again");
    }
    munmap(map, bytes);
    close(file);
}

/* search: a text looked for in all messages of a file of 1074 N bytes (1 GiB for
 * 1,000,000), in the page cache, one thread: the bytes of the file by the time of a whole
 * search, without regard to the case of letters. One text is nowhere, one of common
 * letters is nowhere though its words are everywhere, and one is in every 16,384th
 * message. Each with a new handle, whose first pass maps the pages and computes the
 * checks, and again with the same one. Beside it the floor: the file read into a buffer
 * of 256 KiB, and its map added up by words. */
void run_search(void)
{
    static const struct {
        const char *text, *what;
        bool rare;
    } rows[] = {{"zeppelin", "nowhere", false},
                {"the rows of the table", "common letters", false},
                {"xylophone", "rare", true}};
    struct stat st;
    size_t rare = write_searched((uint64_t)n_messages * 1074);
    bench_read(path);
    bench_must(stat(path, &st) == 0, path);
    double bytes = (double)st.st_size;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t matches = rows[i].rare ? rare : 0;
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        double first = search(store, rows[i].text, matches);
        double again = search(store, rows[i].text, matches);
        ms_close(store);
        record(0, bytes / first, "GB/s", "search, %s, first pass", rows[i].what);
        hold("log", "search", n_messages, bytes / again, "search, %s", rows[i].what);
    }
    measure_floor((size_t)st.st_size);
}
