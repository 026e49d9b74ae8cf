/* Reads of logs: tail, views, reader, hot, old, get, locations. */
#define _GNU_SOURCE
#include "goals.h"

/* Reads the newest 20 of a view of `locations` locations; returns microseconds a
 * query. */
static double time_tail(ms_store *store, int view, size_t locations)
{
    const int queries = quick ? 20000 : 100000;
    uint64_t draw = 7;
    for (int i = 0; i < 2000; i++) read_view(store, view, 20, locations, &draw);
    draw = 7;
    uint64_t begin = bench_now();
    for (int i = 0; i < queries; i++) read_view(store, view, 20, locations, &draw);
    return bench_since(begin) / queries / 1e3;
}

/* tail: the newest 20 of a view of a location drawn at random, and of the hottest one,
 * from opening the cursor to closing it. Of each message number, time and one byte of
 * content are read. */
static void read_tails(ms_store *store)
{
    for (int view = CONVERSATION; view <= AGENT; view++) {
        hold("log", "tail", n_messages, time_tail(store, view, BENCH_LOCATIONS),
             "newest 20, %s", view_names[view]);
        hold("log", "tail", n_messages, time_tail(store, view, 1),
             "newest 20, %s, hottest", view_names[view]);
    }
}

/* views: a whole view of a location drawn at random, read in the same way. */
static void read_views(ms_store *store)
{
    for (int view = CONVERSATION; view < VIEWS; view++) {
        uint64_t state = 11, begin = 0;
        size_t rows = 0, least = n_messages / 2;
        for (int round = 0; round < 2; round++) { /* the first one warms up */
            begin = bench_now();
            for (rows = 0; rows < least;)
                rows += read_view(store, view, 0, BENCH_LOCATIONS, &state);
        }
        record(n_messages, bench_since(begin) / (double)rows, "ns/message", "view, %s",
               view_names[view]);
    }
}

/* Reads every view of a location: the conversation, all agents, the global one. */
static void read_location(ms_store *store, size_t location)
{
    ms_str name = bench_name(data->locations[location]);
    ms_cursor it;
    ms_error err;
    must(ms_get_conversation_messages(store, name, 0, &it, &err), &err);
    read_all(&it);
    must(ms_get_global_messages(store, name, 0, &it, &err), &err);
    read_all(&it);
    for (int i = 0; i < BENCH_AGENTS; i++) {
        ms_str agent = bench_name(data->agents[i]);
        must(ms_get_agent_messages(store, name, agent, 0, &it, &err), &err);
        read_all(&it);
    }
}

/* reader: memory of a reader that has read all views of one location, and of all 100:
 * the growth of RssAnon, and what the handle reports. */
static void read_for_memory(void)
{
    double before = anonymous_mib();
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    read_location(store, BENCH_LOCATIONS / 2);
    double one = anonymous_mib() - before;
    for (size_t i = 0; i < BENCH_LOCATIONS; i++) read_location(store, i);
    double all = anonymous_mib() - before, says = allocated_mib(store);
    ms_close(store);
    if (before >= 0) {
        record(n_messages, one, "MiB", "memory of a reader, one location");
        hold("M2", "RssAnon", n_messages, all, "memory of a reader, RssAnon");
    }
    hold("M2", "as it says", n_messages, says, "memory of a reader, as it says");
}

void read_closed(void)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    if (wanted("tail")) read_tails(store);
    if (wanted("views")) read_views(store);
    ms_close(store);
    if (wanted("reader")) read_for_memory();
}

/* hot: the newest 20 of the conversation of the hottest location in logs of 10,000,
 * 100,000 and so on to N messages (at most 10,000,000), and the largest of these times to
 * the least. */
void run_hot(void)
{
    double least = 0, most = 0;
    size_t end = n_messages < 10000000 ? n_messages : 10000000;
    for (size_t n = end < 10000 ? end : 10000; n <= end; n *= 10) {
        write_log(n);
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        double each = time_tail(store, CONVERSATION, 1);
        ms_close(store);
        hold("R3", "time", n, each, "newest 20, one location, fixed");
        if (least <= 0 || each < least) least = each;
        if (each > most) most = each;
    }
    if (end > 10000)
        hold("R3", "flat", n_messages, most / least,
             "newest 20, fixed, largest to least");
}

/* Reads the newest 20 of each of so many locations that have no new messages. */
static double read_old(ms_store *store, size_t locations)
{
    ms_error err;
    uint64_t begin = bench_now();
    for (size_t i = 0; i < locations; i++) {
        char name[BENCH_NAME];
        ms_cursor it;
        snprintf(name, sizeof name, "old_%04u", (unsigned)(i * 1009 % locations));
        must(ms_get_conversation_messages(store, bench_name(name), 20, &it, &err), &err);
        if (read_all(&it) != 20) bench_die("an old location", "it has lost messages");
    }
    return bench_since(begin) / (double)locations / 1e3;
}

/* old: the newest 20 of locations that had 25 messages each before N others came: of each
 * once, then again. The file is in the page cache. */
void run_old(void)
{
    size_t locations = n_messages / 1000;
    ms_error err;
    if (locations < 10) locations = 10;
    if (locations > 1000) locations = 1000;
    ms_store *store = new_log(false);
    for (size_t i = 0; i < 25 * locations; i++) {
        char name[BENCH_NAME];
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(data->pool + i, 200)));
        snprintf(name, sizeof name, "old_%04u", (unsigned)(i % locations));
        must(ms_append(store, bench_name(name), &m, NULL, &err), &err);
    }
    append(store, 0, n_messages);
    ms_close(store);
    bench_read(path);
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    double first = read_old(store, locations), again = read_old(store, locations);
    ms_close(store);
    hold("R5", "time", n_messages, first, "newest 20, long ago");
    record(n_messages, again, "us/query", "  the same locations again");
}

/* Returns microseconds of one ms_get_by_seq. */
static double time_get(ms_store *store, uint64_t seq)
{
    ms_arena arena;
    const ms_msg *msg;
    ms_error err;
    memset(&arena, 0, sizeof arena);
    uint64_t begin = bench_now();
    must(ms_get_by_seq(store, seq, &arena, &msg, &err), &err);
    double spent = bench_since(begin) / 1e3;
    if (ms_seq(msg) != seq) bench_die("get", "another message came");
    ms_arena_deinit(&arena);
    return spent;
}

/* get: one message by its number, out of the oldest tenth of N, by a handle that has read
 * nothing yet; opening is not counted. Once with the file in the page cache, once (cold)
 * with the file dropped from it just before opening. Medians of 21 handles (5 in short
 * runs). Beside it, further messages of the same tenth by one handle. */
void run_get(void)
{
    enum { TIMES = 21, FURTHER = 2000 };
    double times[TIMES];
    int n = quick || n_messages < 100000 ? 5 : TIMES;
    uint64_t state = 23;
    write_log(n_messages);
    for (int cold = 0; cold < 2; cold++) {
        for (int i = 0; i < n; i++) {
            if (cold) bench_settle(path, true);
            ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
            times[i] = time_get(store, 1 + bench_below(&state, n_messages / 10));
            ms_close(store);
        }
        hold("R7", cold ? "cold" : "warm", n_messages,
             bench_median(times, (size_t)n) / 1e3, "get an old message, %s",
             cold ? "cold" : "new handle");
    }
    bench_read(path);
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    double sum = 0;
    for (int i = 0; i < FURTHER; i++)
        sum += time_get(store, 1 + bench_below(&state, n_messages / 10));
    ms_close(store);
    record(n_messages, sum / FURTHER, "us", "  further ones by one handle");
}

/* locations: the newest 20 of N locations, of one message of 100 bytes each, by a handle
 * that has read nothing yet: with the messages of each counted, and by names only. Then
 * again by the same handle. Opening is not counted; the file is in the page cache. */
void run_locations(void)
{
    static const char *const which[2] = {"counted", "names only"};
    size_t n = n_messages;
    ms_error err;
    ms_store *store = new_log(false);
    for (size_t i = 0; i < n; i++) {
        char name[BENCH_NAME];
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(data->pool + i % 1024, 100)));
        snprintf(name, sizeof name, "place_%08u", (unsigned)(i % 100000000));
        must(ms_append(store, bench_name(name), &m, NULL, &err), &err);
    }
    ms_close(store);
    bench_read(path);
    for (int names = 0; names < 2; names++) {
        store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        for (int again = 0; again < 2; again++) {
            ms_list_query query;
            ms_listing listing;
            ms_arena arena;
            memset(&query, 0, sizeof query);
            memset(&arena, 0, sizeof arena);
            query.limit = 20;
            query.names_only = names;
            uint64_t begin = bench_now();
            must(ms_list(store, &query, &arena, &listing, &err), &err);
            double spent = bench_since(begin) / 1e6;
            if (listing.count != 20 || (!names && listing.items[0].messages != 1))
                bench_die("locations", "a listing of the newest 20 is not as expected");
            ms_arena_deinit(&arena);
            if (again) record(n, spent, "ms", "  again, %s", which[names]);
            else
                hold("R6", which[names], n, spent, "newest 20 locations, %s",
                     which[names]);
        }
        ms_close(store);
    }
}
