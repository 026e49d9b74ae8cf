/* LevelDB in the frame of driver.h, through its C interface.
 *
 *     bench_leveldb, see driver.c
 *
 * One key a message, that of kv.h with its bytes in big-endian order, and the record of
 * kv.h as the value; a view is one range, a team eight iterators, merged by number. Every
 * read makes its iterators anew, so that it sees the last commit. Values are read
 * where the iterator holds them; only the newest 20 are copied, as an iterator that goes
 * backwards holds one value at a time.
 *
 * No compression, as none of the others compresses; write buffer and block cache of 64
 * MiB; all else by LevelDB's defaults. LevelDB has no reader that leaves the files
 * unchanged: each opening moves its log into tables. Two processes cannot have it open at
 * a time. It is compacted by leveldb_compact_range over all keys.
 */
#define _GNU_SOURCE
#include <leveldb/c.h>

#include "kv.h"

enum { BUFFER = 64 << 20, CACHE = 64 << 20, KEY = 8 };

static struct level {
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_readoptions_t *reading;
    leveldb_writeoptions_t *writing;
    leveldb_writebatch_t *batch;
    char *copy;                   /* a record to write; the newest 20 to read */
    size_t copy_size;
} level;

static inline void check(char *error, const char *what)
{
    if (error) bench_die(what, error);
}

/* Makes room for at least size bytes at level.copy; keeps its bytes. */
static inline void room(size_t size)
{
    if (size <= level.copy_size) return;
    size_t more = size * 2;
    char *copy = (char *)realloc(level.copy, more);
    if (!copy) bench_die("leveldb", "no memory");
    level.copy = copy;
    level.copy_size = more;
}

static inline void key_bytes(char out[KEY], uint64_t key)
{
    for (int i = 0; i < KEY; i++) out[i] = (char)(key >> (56 - 8 * i));
}

static void open_db(const char *folder, int how)
{
    char *error = NULL;
    memset(&level, 0, sizeof level);
    level.options = leveldb_options_create();
    level.cache = leveldb_cache_create_lru(CACHE);
    level.reading = leveldb_readoptions_create();
    level.writing = leveldb_writeoptions_create();
    level.batch = leveldb_writebatch_create();
    leveldb_writeoptions_set_sync(level.writing, (how & OPEN_SYNC) != 0);
    leveldb_options_set_cache(level.options, level.cache);
    leveldb_options_set_write_buffer_size(level.options, BUFFER);
    leveldb_options_set_compression(level.options, leveldb_no_compression);
    leveldb_options_set_create_if_missing(level.options, (how & OPEN_NEW) != 0);
    leveldb_options_set_error_if_exists(level.options, (how & OPEN_NEW) != 0);
    level.db = leveldb_open(level.options, folder, &error);
    check(error, folder);
}

static void close_db(void)
{
    leveldb_close(level.db);
    leveldb_writebatch_destroy(level.batch);
    leveldb_writeoptions_destroy(level.writing);
    leveldb_readoptions_destroy(level.reading);
    leveldb_options_destroy(level.options);
    leveldb_cache_destroy(level.cache);
    free(level.copy);
    memset(&level, 0, sizeof level);
}

static void commit(const bench_data *data, size_t first, size_t count)
{
    char *error = NULL, key[KEY];
    leveldb_writebatch_clear(level.batch);
    for (size_t i = first; i < first + count; i++) {
        bench_row row = bench_row_of(data, i);
        size_t size = kv_size(&row);
        room(size);
        kv_write(level.copy, &row);
        key_bytes(key, kv_view_of(&data->items[i]) | i);
        leveldb_writebatch_put(level.batch, key, KEY, level.copy, size);
    }
    leveldb_write(level.db, level.writing, level.batch, &error);
    check(error, "write");
}


/* ---- reading ---- */

static leveldb_iterator_t *iterator(void)
{
    leveldb_iterator_t *it = leveldb_create_iterator(level.db, level.reading);
    if (!it) bench_die("leveldb", "no iterator");
    return it;
}

static void destroy(leveldb_iterator_t *it)
{
    char *error = NULL;
    leveldb_iter_get_error(it, &error);
    check(error, "read");
    leveldb_iter_destroy(it);
}

/* Returns the key that the iterator is at, or UINT64_MAX at an end. */
static inline uint64_t key_at(const leveldb_iterator_t *it)
{
    size_t size;
    uint64_t key = 0;
    if (!leveldb_iter_valid(it)) return UINT64_MAX;
    const char *bytes = leveldb_iter_key(it, &size);
    if (size != KEY) bench_die("leveldb", "a key that is not of 8 bytes");
    for (int i = 0; i < KEY; i++) key = key << 8 | (unsigned char)bytes[i];
    return key;
}

static inline void seek(leveldb_iterator_t *it, uint64_t key)
{
    char bytes[KEY];
    key_bytes(bytes, key);
    leveldb_iter_seek(it, bytes, KEY);
}

static inline void take(const leveldb_iterator_t *it, bench_reader *reader)
{
    size_t size;
    const char *value = leveldb_iter_value(it, &size);
    kv_take(reader, value, size);
}

/* Returns the number of the record that the iterator is at, or UINT64_MAX after the
 * view. */
static inline uint64_t head_of(const leveldb_iterator_t *it, uint64_t last)
{
    uint64_t key = key_at(it);
    return key > last ? UINT64_MAX : kv_number(key);
}

static void view_rows(leveldb_iterator_t *it, uint64_t view, bench_reader *reader)
{
    uint64_t last = kv_last(view);
    for (seek(it, view); head_of(it, last) != UINT64_MAX; leveldb_iter_next(it))
        take(it, reader);
}

static void team(size_t location, bench_reader *reader)
{
    leveldb_iterator_t *its[BENCH_AGENTS];
    uint64_t heads[BENCH_AGENTS], last[BENCH_AGENTS];
    int i;
    for (i = 0; i < BENCH_AGENTS; i++) {
        uint64_t view = kv_view(CLASS_AGENT, location, (size_t)i);
        its[i] = iterator();
        last[i] = kv_last(view);
        seek(its[i], view);
        heads[i] = head_of(its[i], last[i]);
    }
    while ((i = kv_first_of(heads, BENCH_AGENTS)) < BENCH_AGENTS) {
        take(its[i], reader);
        leveldb_iter_next(its[i]);
        heads[i] = head_of(its[i], last[i]);
    }
    for (i = 0; i < BENCH_AGENTS; i++) destroy(its[i]);
}

/* Puts the iterator on the last record before or at key. */
static void seek_back(leveldb_iterator_t *it, uint64_t key)
{
    seek(it, key);
    if (leveldb_iter_valid(it))
        leveldb_iter_prev(it);
    else
        leveldb_iter_seek_to_last(it);
}

static void tail(leveldb_iterator_t *it, uint64_t view, bench_reader *reader)
{
    size_t ends[KV_TAIL + 1], count = 0, size;
    ends[0] = 0;
    seek_back(it, kv_last(view));
    while (head_of(it, kv_last(view)) != UINT64_MAX && key_at(it) >= view) {
        const char *value = leveldb_iter_value(it, &size);
        room(ends[count] + size);
        memcpy(level.copy + ends[count], value, size);
        ends[count + 1] = ends[count] + size;
        if (++count == KV_TAIL) break;
        leveldb_iter_prev(it);
    }
    for (; count > 0; count--)
        kv_take(reader, level.copy + ends[count - 1], ends[count] - ends[count - 1]);
}

static void read_view(const bench_data *data, int view, size_t location, size_t agent,
                      bench_reader *reader)
{
    (void)data;
    if (view == VIEW_TEAM) {
        team(location, reader);
        return;
    }
    leveldb_iterator_t *it = iterator();
    if (view == VIEW_TAIL) tail(it, kv_view(CLASS_CONVERSATION, location, 0), reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY)
        view_rows(it, kv_view(CLASS_CONVERSATION, location, 0), reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY)
        view_rows(it, kv_view(CLASS_AGENT, location, agent), reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY)
        view_rows(it, kv_view(CLASS_GLOBAL, location, 0), reader);
    destroy(it);
}

static void scan(bench_reader *reader)
{
    leveldb_iterator_t *it = iterator();
    for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it))
        take(it, reader);
    destroy(it);
}

static void compact(const char *folder)
{
    open_db(folder, OPEN_WRITE);
    leveldb_compact_range(level.db, NULL, 0, NULL, 0);
    close_db();
}


const bench_store bench_stores[] = {
    {"leveldb", "clustered key, no compression, 64 MiB write buffer, 64 MiB block cache",
     open_db, commit, read_view, close_db, scan, compact},
};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
