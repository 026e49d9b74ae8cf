/* What the library reaches by itself, each figure against its goal.
 *
 *     bench_goals [--n N] [--runs R] [--quick] [--dir FOLDER] [--only NAME,NAME]
 *                 [--shared FOLDER] [--json]
 *
 * N is the largest number of messages (1000000), R how often all is measured (5, and 1
 * with --quick, which also makes some loops shorter, or with --json); the files are made
 * new in every run, in a folder of their own inside FOLDER, else $BENCH_DIR, else the
 * current folder, and removed at the end. --shared is the folder of test data, else
 * $MS_SHARED, else ../shared. --json prints, instead of the table, one JSON object a line
 * for each figure. What must be reached stands in goals/table.h. Ratios to other stores
 * are not here: see compare.c. Before the first run as much memory is touched as N messages
 * take. NAME is a goal of that table, or a group:
 *
 *   append   No sync, from an empty file; opening and closing are not counted, room,
 *            pages and index records are. Beside it, the envelopes alone, and bare copies
 *            of as many bytes into a map of allocated room, supplied in steps of 64 KiB.
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
 *            reader and for a writer. Once with the file in the page cache, once (cold)
 *            with the file dropped from it just before.
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
 *   reader   Memory of a reader that has read all views of one location, and of all 100:
 *            what RssAnon grew by, and what the handle says.
 *   arena    Appends to an arena store that was filled once and reset, so that all its
 *            memory is there. Beside it, by turns, the floor: two hashes, ten fields
 *            copied into memory that was touched before, a number put on a list.
 *   keyed    Appends with an idempotency key where N keys (at most 1000000) are known, in
 *            a log and in an arena store: N / 10 new keys, and as many known ones, which
 *            append nothing.
 *   hot      The newest 20 of the conversation of the hottest location in logs of 10000,
 *            100000 and so on to N messages (at most 10000000), and the largest of these
 *            times to the least.
 *   old      The newest 20 of locations that had 25 messages each before N others came:
 *            of each once, then again. The file is in the page cache.
 *   many     N / 10 locations with 10 messages of 100 bytes each, interleaved: blocks of
 *            the file against the bytes of fields and names.
 *   threads  1000 synced appends by one thread, then as many by each of 8 threads of one
 *            handle.
 *   beside   A process that appends and one that reads whole conversations, for 0.7 s:
 *            each alone, then both. The appends go to other locations than those read.
 *   json     ms_json_check of the JSON of real traces, bytes a second, and beside it
 *            cJSON_ParseWithLength with cJSON_Delete (where the package is there).
 *   project  A history of 1000 messages of real conversations made into the request of
 *            each provider.
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
 * tail, views, open, verify, disk and reader are read once in full before. Messages: see
 * data.h.
 */
#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../../msgstore.h"

#include "../data.h"
#include "table.h"
#include "../system.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#include "base.h"
#include "write.h"
#include "read.h"
#include "beside.h"
#include "format.h"

/* ---- all of it ---- */

static void run_all(void)
{
    size_t sizes[3] = {10000, 100000, n_messages};
    bool closed = wanted("disk") || wanted("open") || wanted("tail") || wanted("views") ||
                  wanted("verify") || wanted("reader");
    if (wanted("append") || wanted("memory")) run_append();
    if (wanted("warm")) run_warm();
    if (wanted("slowest")) run_slowest();
    if (wanted("sync")) run_sync();
    for (int i = 0; i < 3; i++)
        if (closed && (i == 2 || sizes[i] < n_messages)) run_closed(sizes[i]);
    if (wanted("search")) run_search();
    for (int i = 0; i < 3; i++)
        if (wanted("crash") && (i == 2 || sizes[i] < n_messages)) run_crash(sizes[i]);
    if (wanted("hot")) run_hot();
    if (wanted("old")) run_old();
    if (wanted("many")) run_many();
    if (wanted("arena")) run_arena();
    if (wanted("keyed")) run_keyed();
    if (wanted("threads")) run_threads();
    if (wanted("beside")) run_beside();
    if (wanted("json")) run_json();
    if (wanted("project")) run_project();
    if (wanted("writers")) run_writers();
    if (wanted("changes")) run_changes();
}

static void print_head(void)
{
    char line[1024];
    bench_machine(line, sizeof line);
    printf("%s\n", line);
    printf("%zu messages, each %.0f bytes of payload and %.0f of names; ", n_messages,
           data->payload / (double)n_messages, data->names / (double)n_messages);
    printf("%zu runs; engine %s\n", n_runs, engine != NULL ? engine : "not opened");
    printf("\n%-46s %10s %-11s %6s %7s  %-7s (least .. most)\n", "what", "value", "unit",
           "must", "stretch", "verdict");
}

static void make_folder(const char *where)
{
    const char *set = getenv("BENCH_DIR");
    if (where == NULL) where = set != NULL && set[0] != '\0' ? set : ".";
    int len = snprintf(folder, sizeof folder, "%s/bench_goals_XXXXXX", where);
    if (len >= (int)sizeof folder || mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        die(where, "no folder can be made there");
    }
    snprintf(path, sizeof path, "%s/goals.msl", folder);
    snprintf(others[0], sizeof others[0], "%s/goals-1.msl", folder);
    snprintf(others[1], sizeof others[1], "%s/goals-2.msl", folder);
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

/* The folder of test data, as the option says or the environment. */
static const char *shared_folder(const char *where)
{
    if (where != NULL && where[0] != '\0') return where;
    where = getenv("MS_SHARED");
    return where != NULL && where[0] != '\0' ? where : "../shared";
}

static void print_all(bool json)
{
    if (!json) print_head();
    for (size_t i = 0; i < n_figures; i++) {
        if (json) print_json(&figures[i]);
        else print_figure(&figures[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"shared", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {NULL, 0, NULL, 0}};
    const char *where = NULL;
    bool json = false;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'n') n_messages = number_option(optarg, 1000, 100000000);
        else if (option == 'r') n_runs = number_option(optarg, 1, RUNS);
        else if (option == 'd') where = optarg;
        else if (option == 'o') only = optarg;
        else if (option == 's') shared = optarg;
        else if (option == 'j') json = true;
        else if (option == 'q') quick = true;
        else return 2;
    }
    if (n_runs == 0) n_runs = json || quick ? 1 : 5;
    check_only();
    shared = shared_folder(shared);
    make_folder(where);
    data = bench_make(n_messages);
    touch_memory(n_messages);
    recording = true;
    for (size_t run = 0; run < n_runs; run++) {
        if (isatty(2)) fprintf(stderr, "run %zu of %zu\r", run + 1, n_runs);
        run_all();
    }
    print_all(json);
    clean_up();
    return 0;
}
