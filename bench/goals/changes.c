/* Reads of stores in which a location was changed: changes. */
#define _GNU_SOURCE
#include "goals.h"

enum { PLAIN, AGAIN, CHANGED, KINDS, ALTERED = 1, BLOCKS = 99, AT_MOST = 200000 };

/* Appends n messages, perhaps with changes in the location ALTERED. */
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

/* Returns nanoseconds a query (limit 20) or a message (0). */
static double read_block(ms_store *store, size_t limit, bool altered, uint64_t draw,
                         size_t *rows)
{
    size_t queries = limit > 0 ? 2000 : altered ? 8 : 60;
    ms_cursor it;
    ms_error err;
    *rows = 0;
    uint64_t begin = bench_now();
    for (size_t i = 0; i < queries; i++) {
        size_t at = bench_below(&draw, BENCH_LOCATIONS - 1);
        at = altered ? ALTERED : at + (at >= ALTERED);
        ms_str location = bench_name(data->locations[at]);
        must(ms_get_conversation_messages(store, location, limit, &it, &err), &err);
        *rows += read_all(&it);
    }
    return bench_since(begin) / (double)(limit > 0 ? queries : *rows);
}

static void compare_blocks(ms_store *const stores[KINDS], const char *kind, size_t limit,
                           bool altered)
{
    static double times[KINDS][BLOCKS];
    double middle[KINDS];
    const char *what = limit > 0 ? "newest 20" : "view";
    for (size_t block = 0; block <= BLOCKS; block++) {
        size_t rows[KINDS];
        for (size_t turn = 0; turn < KINDS; turn++) {
            size_t k = (block + turn) % KINDS;
            double spent = read_block(stores[k], limit, altered, block, &rows[k]);
            if (block > 0) times[k][block - 1] = spent; /* the first one warms up */
        }
        if (rows[PLAIN] != rows[AGAIN] || (!altered && rows[PLAIN] != rows[CHANGED]))
            bench_die("changes", "a view has other messages");
    }
    for (size_t k = 0; k < KINDS; k++) middle[k] = bench_median(times[k], BLOCKS);
    record(0, middle[PLAIN], limit > 0 ? "ns/query" : "ns/message",
           "%s, %s%s, no changes", kind, what, altered ? " of one" : "");
    record(0, 100 * (middle[AGAIN] / middle[PLAIN] - 1), "% more",
           "%s, %s%s, the same again", kind, what, altered ? " of it" : "");
    double more = 100 * (middle[CHANGED] / middle[PLAIN] - 1);
    if (altered) record(0, more, "% more", "%s, %s of it, changed", kind, what);
    else hold("log", "changes", n_messages, more, "%s, %s, others changed", kind, what);
}

/* Makes log k, a file of its own, and returns a handle that reads it. */
static ms_store *changes_log(size_t k, size_t n)
{
    char first[sizeof path];
    memcpy(first, path, sizeof path);
    snprintf(path, sizeof path, "%s/changes-%zu.msl", bench_folder, k);
    ms_store *store = new_log(false);
    fill(store, n, k == CHANGED);
    ms_close(store);
    bench_read(path);
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    bench_remove(path); /* the handle has it open */
    memcpy(path, first, sizeof path);
    return store;
}

/* changes: the newest 20 and the whole conversation of locations drawn at random, in
 * three stores of at most 200,000 messages: one without any change, another one like it,
 * and one in which one location of the 100 (never drawn) has amends (one for each 100 of
 * its messages) and rewinds (by 10, one for each 1000). The three take turns, block by
 * block; shown are the medians of the blocks and by how many percent the second and the
 * third are above the first. Then the same of the changed location itself. Once in logs,
 * once in arena stores. */
void run_changes(void)
{
    size_t n = n_messages < AT_MOST ? n_messages : AT_MOST;
    ms_store *stores[KINDS];
    for (int arena = 0; arena < 2; arena++) {
        for (size_t k = 0; k < KINDS; k++) {
            stores[k] = arena ? new_arena() : changes_log(k, n);
            if (arena) fill(stores[k], n, k == CHANGED);
        }
        for (int altered = 0; altered < 2; altered++) {
            compare_blocks(stores, arena ? "in an arena" : "in a log", 20, altered);
            compare_blocks(stores, arena ? "in an arena" : "in a log", 0, altered);
        }
        for (size_t k = 0; k < KINDS; k++) ms_close(stores[k]);
    }
}
