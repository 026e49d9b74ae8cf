/* LMDB in the frame of driver.h, in two layouts, each with and without MDB_WRITEMAP.
 *
 *     bench_lmdb, see driver.c; the variants are the four of the table below
 *
 * "seq+dup": a database of records by number, written with MDB_APPEND, and one of the
 * numbers of each view, 8 bytes each (MDB_DUPFIXED), written with MDB_APPENDDUP and read
 * a page at a time with MDB_GET_MULTIPLE. "clustered": one database, by the key of kv.h;
 * a view is one range of it. A team is eight cursors, merged by number.
 *
 * Every read is a read transaction of its own, renewed, so that it sees the last commit.
 * Records are read in place in the map, and written in place (MDB_RESERVE). Without sync
 * the environment has MDB_NOSYNC: a commit is in the page cache, and so outlives the
 * process, but not the machine. MDB_MAPASYNC adds nothing: it decides how a sync is done,
 * and MDB_NOSYNC leaves the sync out.
 *
 * Left out: MDB_NORDAHEAD, which makes the first pass over a cold file much slower. With
 * MDB_WRITEMAP a file has the size of the map, 32 GiB, nearly all of it a hole, while it
 * is written; the hole is truncated at closing. The file is compacted by a copy with
 * MDB_CP_COMPACT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kv.h"

#define MAP_SIZE ((size_t)32 << 30) /* bytes of address space */

static struct lmdb {
    bool clustered;
    bool long_file;                /* as long as the map: a writer with MDB_WRITEMAP */
    MDB_env *env;
    MDB_dbi records, views;
    MDB_txn *reading;              /* NULL until the first read; reset between reads */
    MDB_cursor *record;            /* these three are of that transaction */
    MDB_cursor *view[BENCH_AGENTS];   /* clustered: over records, else over views */
} db;

/* Ends the program unless LMDB reports success. */
static inline void check(int code, const char *what)
{
    if (code != MDB_SUCCESS) bench_die(what, mdb_strerror(code));
}

/* Does the same, but returns whether an entry was found. */
static inline bool found(int code, const char *what)
{
    if (code == MDB_NOTFOUND) return false;
    check(code, what);
    return true;
}

static inline uint64_t number_of(const MDB_val *value)
{
    uint64_t number;
    memcpy(&number, value->mv_data, sizeof number);
    return number;
}

static inline MDB_val value_of(uint64_t *number)
{
    MDB_val value = {sizeof *number, number};
    return value;
}


/* ---- opening and closing ---- */

static unsigned env_flags(int how, bool writemap)
{
    unsigned flags = MDB_NOTLS | MDB_NOMEMINIT;
    if (!(how & (OPEN_NEW | OPEN_WRITE))) return flags | MDB_RDONLY;
    if (!(how & OPEN_SYNC)) flags |= MDB_NOSYNC;
    return writemap ? flags | MDB_WRITEMAP : flags;
}

static void open_tables(int how)
{
    unsigned create = how & OPEN_NEW ? MDB_CREATE : 0;
    unsigned views = MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP;
    bool writes = how & (OPEN_NEW | OPEN_WRITE);
    MDB_txn *txn;
    check(mdb_txn_begin(db.env, NULL, writes ? 0 : MDB_RDONLY, &txn), "begin");
    /* A single database needs no name, which would cost a page in every commit. */
    const char *name = db.clustered ? NULL : "records";
    check(mdb_dbi_open(txn, name, MDB_INTEGERKEY | create, &db.records), "records");
    if (!db.clustered)
        check(mdb_dbi_open(txn, "views", views | create, &db.views), "views");
    check(mdb_txn_commit(txn), "commit");
}

static void open_env(const char *folder, int how, bool clustered, bool writemap)
{
    memset(&db, 0, sizeof db);
    db.clustered = clustered;
    db.long_file = writemap && (how & (OPEN_NEW | OPEN_WRITE));
    check(mdb_env_create(&db.env), "mdb_env_create");
    check(mdb_env_set_mapsize(db.env, MAP_SIZE), "mdb_env_set_mapsize");
    if (!clustered) check(mdb_env_set_maxdbs(db.env, 2), "mdb_env_set_maxdbs");
    check(mdb_env_open(db.env, folder, env_flags(how, writemap), 0644), folder);
    open_tables(how);
}

static void open_seq(const char *folder, int how) { open_env(folder, how, false, false); }
static void open_seq_map(const char *folder, int how)
{
    open_env(folder, how, false, true);
}
static void open_clustered(const char *folder, int how)
{
    open_env(folder, how, true, false);
}
static void open_clustered_map(const char *folder, int how)
{
    open_env(folder, how, true, true);
}

/* Truncates the hole after the last page, so that the file can be read as others are. */
static void cut_hole(void)
{
    MDB_envinfo info;
    MDB_stat stat;
    int file;
    check(mdb_env_info(db.env, &info), "mdb_env_info");
    check(mdb_env_stat(db.env, &stat), "mdb_env_stat");
    check(mdb_env_get_fd(db.env, &file), "mdb_env_get_fd");
    off_t size = (off_t)(info.me_last_pgno + 1) * (off_t)stat.ms_psize;
    if (ftruncate(file, size) != 0) bench_die("ftruncate", strerror(errno));
}

static void close_env(void)
{
    if (db.reading) {
        for (int i = 0; i < BENCH_AGENTS; i++) mdb_cursor_close(db.view[i]);
        mdb_cursor_close(db.record);
        mdb_txn_abort(db.reading);
    }
    if (db.long_file) cut_hole();
    mdb_env_close(db.env);
    memset(&db, 0, sizeof db);
}


/* ---- writing ---- */

static inline void put_record(MDB_cursor *cursor, uint64_t key, const bench_row *row,
                              unsigned append)
{
    MDB_val k = value_of(&key), v = {kv_size(row), NULL};
    check(mdb_cursor_put(cursor, &k, &v, MDB_RESERVE | append), "put of a record");
    kv_write(v.mv_data, row);
}

static inline void put_number(MDB_cursor *cursor, uint64_t view, uint64_t number)
{
    MDB_val k = value_of(&view), v = value_of(&number);
    check(mdb_cursor_put(cursor, &k, &v, MDB_APPENDDUP), "put of a number");
}

static void commit_seq(const bench_data *data, size_t first, size_t count)
{
    MDB_txn *txn;
    MDB_cursor *records, *views;
    check(mdb_txn_begin(db.env, NULL, 0, &txn), "begin");
    check(mdb_cursor_open(txn, db.records, &records), "cursor");
    check(mdb_cursor_open(txn, db.views, &views), "cursor");
    for (size_t i = first; i < first + count; i++) {
        bench_row row = bench_row_of(data, i);
        put_record(records, i, &row, MDB_APPEND);
        put_number(views, kv_view_of(&data->items[i]), i);
    }
    check(mdb_txn_commit(txn), "commit"); /* closes the cursors */
}

static void commit_clustered(const bench_data *data, size_t first, size_t count)
{
    MDB_txn *txn;
    MDB_cursor *records;
    check(mdb_txn_begin(db.env, NULL, 0, &txn), "begin");
    check(mdb_cursor_open(txn, db.records, &records), "cursor");
    for (size_t i = first; i < first + count; i++) {
        bench_row row = bench_row_of(data, i);
        put_record(records, kv_view_of(&data->items[i]) | i, &row, MDB_NOOVERWRITE);
    }
    check(mdb_txn_commit(txn), "commit");
}


/* ---- reading ---- */

/* Begins a read: the transaction sees all commits so far. The first `views` cursors of
 * the views can be used. */
static void begin_read(int views)
{
    MDB_dbi dbi = db.clustered ? db.records : db.views;
    if (!db.reading) {
        check(mdb_txn_begin(db.env, NULL, MDB_RDONLY, &db.reading), "begin");
        check(mdb_cursor_open(db.reading, db.records, &db.record), "cursor");
        for (int i = 0; i < BENCH_AGENTS; i++)
            check(mdb_cursor_open(db.reading, dbi, &db.view[i]), "cursor");
        return;
    }
    check(mdb_txn_renew(db.reading), "renew");
    if (!db.clustered) check(mdb_cursor_renew(db.reading, db.record), "renew");
    for (int i = 0; i < views; i++)
        check(mdb_cursor_renew(db.reading, db.view[i]), "renew");
}

static void end_read(void) { mdb_txn_reset(db.reading); }

static void scan(bench_reader *reader)
{
    MDB_val key, value;
    begin_read(0);
    check(mdb_cursor_renew(db.reading, db.record), "renew");
    int code = mdb_cursor_get(db.record, &key, &value, MDB_FIRST);
    for (; found(code, "scan");
         code = mdb_cursor_get(db.record, &key, &value, MDB_NEXT))
        kv_take(reader, value.mv_data, value.mv_size);
    end_read();
}


/* ---- reading numbers, then records ---- */

/* The numbers of a view, one page of them at a time. */
typedef struct numbers {
    MDB_cursor *cursor;
    MDB_val page;
    size_t used;                 /* bytes of page */
} numbers;

/* Goes to the next page of numbers; false after the last. */
static bool next_page(numbers *n)
{
    MDB_val key;
    int code = mdb_cursor_get(n->cursor, &key, &n->page, MDB_NEXT_MULTIPLE);
    n->used = 0;
    return found(code, "numbers");
}

/* Returns the next number, or UINT64_MAX at the end; then it is not called again. */
static inline uint64_t next_number(numbers *n)
{
    uint64_t number;
    if (n->used == n->page.mv_size && !next_page(n)) return UINT64_MAX;
    memcpy(&number, (const char *)n->page.mv_data + n->used, sizeof number);
    n->used += sizeof number;
    return number;
}

static uint64_t first_number(numbers *n, MDB_cursor *cursor, uint64_t view)
{
    MDB_val key = value_of(&view);
    memset(n, 0, sizeof *n);
    n->cursor = cursor;
    int code = mdb_cursor_get(cursor, &key, &n->page, MDB_SET);
    if (!found(code, "view")) return UINT64_MAX;
    /* In a view of one number this leaves the page as MDB_SET filled it: with that
     * number. */
    check(mdb_cursor_get(cursor, &key, &n->page, MDB_GET_MULTIPLE), "view");
    return next_number(n);
}

static inline void take_number(uint64_t number, bench_reader *reader)
{
    MDB_val key = value_of(&number), value;
    check(mdb_cursor_get(db.record, &key, &value, MDB_SET), "record");
    kv_take(reader, value.mv_data, value.mv_size);
}

static void seq_view(uint64_t view, bench_reader *reader)
{
    numbers n;
    uint64_t number = first_number(&n, db.view[0], view);
    for (; number != UINT64_MAX; number = next_number(&n)) take_number(number, reader);
}

static void seq_team(size_t location, bench_reader *reader)
{
    numbers n[BENCH_AGENTS];
    uint64_t heads[BENCH_AGENTS];
    int i;
    for (i = 0; i < BENCH_AGENTS; i++)
        heads[i] = first_number(&n[i], db.view[i],
                                kv_view(CLASS_AGENT, location, (size_t)i));
    while ((i = kv_first_of(heads, BENCH_AGENTS)) < BENCH_AGENTS) {
        take_number(heads[i], reader);
        heads[i] = next_number(&n[i]);
    }
}

static void seq_tail(uint64_t view, bench_reader *reader)
{
    uint64_t newest[KV_TAIL];
    size_t count = 0;
    MDB_val key = value_of(&view), value;
    if (!found(mdb_cursor_get(db.view[0], &key, &value, MDB_SET), "view")) return;
    int code = mdb_cursor_get(db.view[0], &key, &value, MDB_LAST_DUP);
    while (found(code, "tail")) {
        newest[count++] = number_of(&value);
        if (count == KV_TAIL) break;
        code = mdb_cursor_get(db.view[0], &key, &value, MDB_PREV_DUP);
    }
    while (count > 0) take_number(newest[--count], reader);
}


/* ---- reading ranges ---- */

/* One range of the clustered keys: its current record. */
typedef struct range {
    MDB_cursor *cursor;
    uint64_t last;
    MDB_val value;
} range;

/* Returns the number of the record that the call found, or UINT64_MAX after the range. */
static inline uint64_t in_range(const range *r, int code, const MDB_val *key)
{
    if (!found(code, "range")) return UINT64_MAX;
    uint64_t found_key = number_of(key);
    return found_key > r->last ? UINT64_MAX : kv_number(found_key);
}

static inline uint64_t next_of(range *r)
{
    MDB_val key;
    int code = mdb_cursor_get(r->cursor, &key, &r->value, MDB_NEXT);
    return in_range(r, code, &key);
}

static uint64_t first_of(range *r, MDB_cursor *cursor, uint64_t view)
{
    MDB_val key = value_of(&view);
    r->cursor = cursor;
    r->last = kv_last(view);
    return in_range(r, mdb_cursor_get(cursor, &key, &r->value, MDB_SET_RANGE), &key);
}

static void clustered_view(uint64_t view, bench_reader *reader)
{
    range r;
    uint64_t number = first_of(&r, db.view[0], view);
    for (; number != UINT64_MAX; number = next_of(&r))
        kv_take(reader, r.value.mv_data, r.value.mv_size);
}

static void clustered_team(size_t location, bench_reader *reader)
{
    range r[BENCH_AGENTS];
    uint64_t heads[BENCH_AGENTS];
    int i;
    for (i = 0; i < BENCH_AGENTS; i++)
        heads[i] = first_of(&r[i], db.view[i], kv_view(CLASS_AGENT, location, (size_t)i));
    while ((i = kv_first_of(heads, BENCH_AGENTS)) < BENCH_AGENTS) {
        kv_take(reader, r[i].value.mv_data, r[i].value.mv_size);
        heads[i] = next_of(&r[i]);
    }
}

static void clustered_tail(uint64_t view, bench_reader *reader)
{
    MDB_val newest[KV_TAIL]; /* of the map: they stay where they are during the read */
    size_t count = 0;
    MDB_cursor *cursor = db.view[0];
    uint64_t after = kv_last(view);
    MDB_val key = value_of(&after), value;
    bool more = found(mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE), "tail");
    int code = mdb_cursor_get(cursor, &key, &value, more ? MDB_PREV : MDB_LAST);
    while (found(code, "tail") && number_of(&key) >= view) {
        newest[count++] = value;
        if (count == KV_TAIL) break;
        code = mdb_cursor_get(cursor, &key, &value, MDB_PREV);
    }
    while (count > 0) {
        count--;
        kv_take(reader, newest[count].mv_data, newest[count].mv_size);
    }
}

static void read_view(const bench_data *data, int view, size_t location, size_t agent,
                      bench_reader *reader)
{
    void (*rows)(uint64_t, bench_reader *) = db.clustered ? clustered_view : seq_view;
    uint64_t conversation = kv_view(CLASS_CONVERSATION, location, 0);
    (void)data;
    begin_read(view == VIEW_TEAM ? BENCH_AGENTS : 1);
    if (view == VIEW_TAIL)
        (db.clustered ? clustered_tail : seq_tail)(conversation, reader);
    if (view == VIEW_CONVERSATION || view == VIEW_HISTORY) rows(conversation, reader);
    if (view == VIEW_AGENT || view == VIEW_HISTORY)
        rows(kv_view(CLASS_AGENT, location, agent), reader);
    if (view == VIEW_GLOBAL || view == VIEW_HISTORY)
        rows(kv_view(CLASS_GLOBAL, location, 0), reader);
    if (view == VIEW_TEAM) (db.clustered ? clustered_team : seq_team)(location, reader);
    end_read();
}

/* Copies the file with MDB_CP_COMPACT; the copy takes its place. */
static void compact_env(const char *folder, bool clustered)
{
    char copy[4200], from[4300], to[4200];
    snprintf(copy, sizeof copy, "%s/copy", folder);
    bench_must(mkdir(copy, 0700) == 0, copy);
    open_env(folder, 0, clustered, false);
    check(mdb_env_copy2(db.env, copy, MDB_CP_COMPACT), copy);
    close_env();
    snprintf(from, sizeof from, "%s/data.mdb", copy);
    snprintf(to, sizeof to, "%s/data.mdb", folder);
    bench_must(rename(from, to) == 0, to);
    bench_remove(copy);
    snprintf(to, sizeof to, "%s/lock.mdb", folder);
    bench_must(unlink(to) == 0, to);
}

static void compact_seq(const char *folder) { compact_env(folder, false); }
static void compact_clustered(const char *folder) { compact_env(folder, true); }


const bench_store bench_stores[] = {
    {"lmdb seq+dup", "MDB_APPEND by number, DUPFIXED index; no sync: MDB_NOSYNC",
     open_seq, commit_seq, read_view, close_env, scan, compact_seq},
    {"lmdb clustered", "key (location, class, agent, number); no sync: MDB_NOSYNC",
     open_clustered, commit_clustered, read_view, close_env, scan, compact_clustered},
    {"lmdb seq+dup writemap", "as seq+dup, MDB_WRITEMAP", open_seq_map, commit_seq,
     read_view, close_env, scan, compact_seq},
    {"lmdb clustered writemap", "as clustered, MDB_WRITEMAP", open_clustered_map,
     commit_clustered, read_view, close_env, scan, compact_clustered},
};
const size_t bench_n_stores = sizeof bench_stores / sizeof bench_stores[0];
