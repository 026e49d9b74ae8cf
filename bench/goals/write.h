/* The groups of goals.c that append: append, memory, warm, slowest, sync, arena, keyed.
 * Part of that program. */

#ifndef BENCH_GOALS_WRITE_H
#define BENCH_GOALS_WRITE_H

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
        hold("M1", "RssAnon", n, labelled(label, "memory of a writer, RssAnon", n),
             grown);
    hold("M1", "as it says", n, labelled(label, "memory of a writer, as it says", n),
         told);
}

static void measure_append(size_t n)
{
    char label[64];
    double before = anonymous_bytes();
    ms_store *store = new_log(false);
    uint64_t begin = bench_now();
    append(store, 0, n);
    double each = bench_since(begin) / (double)n;
    if (wanted("append"))
        hold("log", "append", n, labelled(label, "append, no sync", n), each);
    record_memory(store, before, n);
    ms_close(store);
}

/* The envelopes alone. */
static void measure_envelopes(void)
{
    uint64_t begin = bench_now(), sum = 0;
    for (size_t i = 0; i < n_messages; i++) {
        ms_envelope m = bench_message(data, i);
        sum += (uint64_t)(uintptr_t)m.content.text.ptr + m.location.len;
    }
    double each = bench_since(begin) / (double)n_messages;
    sink += sum;
    record("  the envelopes alone", each, "ns/message");
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
    uint64_t begin = bench_now();
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
    double each = bench_since(begin) / (double)n;
    munmap(map, WINDOW);
    close(file);
    unlink(path);
    record(labelled(label, "  bare copies into a map", n), each, "ns/message");
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
        uint64_t begin = bench_now();
        must(ms_tick(store, 1000000, &err), &err);
        uint64_t middle = bench_now();
        append(store, i, i + BLOCK < n_messages ? i + BLOCK : n_messages);
        appending += bench_since(middle);
        ticking += (double)(middle - begin);
    }
    ms_close(store);
    hold("log", "warm", n_messages, "append, pages are there",
         appending / (double)n_messages);
    record("  the ticks in between", ticking / (double)n_messages, "ns/message");
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

/* Sorts the times. */
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
        record(label, times[at] / 1e3, "us");
    }
}

/* Copies like those of a record, each timed, for at least so long. */
static size_t time_copies(uint32_t *times, size_t n, double least_ns)
{
    static char room[8 << 20];
    uint64_t begin = bench_now();
    size_t at = 0, slowest = 0;
    memset(room, 1, sizeof room);
    for (size_t i = 0; i < n || bench_since(begin) < least_ns; i++) {
        size_t size = bare_size(i % n);
        if (at + size > sizeof room) at = 0;
        uint64_t start = bench_now();
        memcpy(room + at, data->pool + i % 1024, size);
        uint32_t spent = as_time(bench_now() - start);
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
    uint64_t begin = bench_now();
    for (size_t i = 0; i < n_messages; i++) {
        ms_envelope m = bench_message(data, i);
        uint64_t start = bench_now();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        times[i] = as_time(bench_now() - start);
    }
    double spent = bench_since(begin);
    ms_close(store);
    record_times("single append", times, n_messages);
    hold("A6", "slowest", n_messages, "slowest append of all",
         times[n_messages - 1] / 1e6);
    size_t later = time_copies(times, n_messages, spent);
    if (later > times[n_messages - 1]) times[n_messages - 1] = (uint32_t)later;
    record_times("  single copy", times, n_messages);
}


/* ---- sync ---- */

enum { SYNCED = 1000 };

/* How many appends are synced: fewer where only little is asked for. */
static size_t n_synced(void)
{
    size_t most = quick ? SYNCED / 5 : SYNCED;
    return n_messages >= 100 * most ? most : n_messages / 100;
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

/* Half of the appends took longer than what it returns, in microseconds. */
static double measure_sync(bool evict)
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
    double before = bench_written_bytes(folder);
    for (size_t i = 0; i < n; i++) {
        ms_envelope m = bench_message(data, i % base);
        uint64_t begin = bench_now();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        times[i] = as_time(bench_now() - begin);
    }
    double each = (bench_written_bytes(folder) - before) / (double)n / 1024;
    ms_close(store);
    snprintf(label, sizeof label, "sync each, %s", how);
    double middle = middle_time(times, n);
    record(label, middle, "us");
    snprintf(label, sizeof label, "sync each, %s, %s", how,
             bench_disk_bytes(folder) >= 0 ? "disk" : "dirty");
    if (each > 0)
        hold("A4", evict ? "disk, cache read anew" : "disk, cache as written", n, label,
             each);
    return middle;
}

static double measure_bare_sync(void)
{
    static uint32_t times[SYNCED];
    size_t n = n_synced();
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    must_have(file >= 0, path);
    supply(file, 0, SYNCED * (BENCH_LARGEST + 64));
    settle(false);
    double before = bench_written_bytes(folder);
    for (size_t i = 0; i < n; i++) {
        size_t size = bare_size(i % data->count);
        uint64_t begin = bench_now();
        must_have(pwrite(file, data->pool, size, at) == (ssize_t)size, "pwrite");
        must_have(fdatasync(file) == 0, "fdatasync");
        times[i] = as_time(bench_now() - begin);
        at += (off_t)size;
    }
    double each = (bench_written_bytes(folder) - before) / (double)n / 1024;
    close(file);
    unlink(path);
    double middle = middle_time(times, n);
    record("  bare pwrite and fdatasync", middle, "us");
    if (each > 0) record("  bare pwrite and fdatasync, bytes", each, "KiB/append");
    return middle;
}

static void run_sync(void)
{
    double written = measure_sync(false), anew = measure_sync(true);
    double bare = measure_bare_sync();
    hold("A4", "x bare, cache as written", n_synced(), "sync each to bare, as written",
         bare / written);
    hold("A4", "x bare, cache read anew", n_synced(), "sync each to bare, read anew",
         bare / anew);
}



/* ---- arena ---- */

/* The floor: what an arena store cannot do without, and nothing else. Two hashes find the
 * list of a location and an agent, ten fields go behind a head with their lengths into
 * memory that was touched before, and the list takes the place of the record. */

enum { BARE_FIELDS = 10, BARE_HEAD = 56, BARE_NAMES = 4096 };

typedef struct bare_name {
    uint64_t hash;            /* 0: the slot is free */
    ms_str name;
    uint64_t *list;           /* places of records */
    size_t count, cap;
} bare_name;

typedef struct bare_store {
    char *room;
    size_t used, size;
    bare_name names[BARE_NAMES];
} bare_store;

static uint64_t bare_hash(uint64_t hash, ms_str name)
{
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= name.len; i += 8) {
        memcpy(&word, name.ptr + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.ptr[i]) * UINT64_C(0x100000001B3);
    return (hash ^ hash >> 29) | 1;
}

/* Found or made. */
static bare_name *bare_find(bare_store *b, uint64_t seed, ms_str name)
{
    uint64_t hash = bare_hash(seed, name);
    for (size_t at = (size_t)(hash >> 20) % BARE_NAMES;; at = (at + 1) % BARE_NAMES) {
        bare_name *slot = &b->names[at];
        if (slot->hash == hash && ms_str_equal(slot->name, name)) return slot;
        if (slot->hash != 0) continue;
        slot->hash = hash;
        slot->name = name;
        return slot;
    }
}

static void bare_push(bare_name *name, uint64_t place)
{
    if (name->count == name->cap) {
        name->cap = name->cap > 0 ? 2 * name->cap : 64;
        name->list = (uint64_t *)realloc(name->list, name->cap * sizeof *name->list);
        if (name->list == NULL) die("the floor", "no memory for a list");
    }
    name->list[name->count++] = place;
}

static void bare_put(bare_store *b, const ms_envelope *m)
{
    const ms_str fields[BARE_FIELDS] = {
        m->location, m->agent_key, m->turn_id, m->content.text, m->args.text,
        m->task, m->summary, m->tool.len > 0 ? m->tool : m->error_type,
        m->worker.len > 0 ? m->worker : m->from_worker, m->from_manager};
    bare_name *view = bare_find(b, 1, m->location);
    if (m->agent_key.len > 0) view = bare_find(b, view->hash, m->agent_key);
    char *head = b->room + b->used, *to = head + BARE_HEAD;
    for (int i = 0; i < BARE_FIELDS; i++) {
        uint32_t len = (uint32_t)fields[i].len;
        memcpy(head + 4 * i, &len, 4);
        if (len > 0) memcpy(to, fields[i].ptr, len);
        to += len;
    }
    memcpy(head + 40, &m->time_ns, 8);
    memcpy(head + 48, &m->type, sizeof m->type);
    bare_push(view, b->used);
    b->used += ((size_t)(to - head) + 7) / 8 * 8;
}

static void bare_append(bare_store *b, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        ms_envelope m = bench_message(data, i);
        bare_put(b, &m);
    }
}

static bare_store *bare_open(void)
{
    bare_store *b = (bare_store *)bench_memory(sizeof *b);
    memset(b, 0, sizeof *b);
    b->size = (size_t)(data->payload + data->names) + data->count * (BARE_HEAD + 8);
    b->room = (char *)bench_memory(b->size);
    return b;
}

/* Memory and lists stay. */
static void bare_reset(bare_store *b)
{
    b->used = 0;
    for (size_t i = 0; i < BARE_NAMES; i++) b->names[i].count = 0;
}

static void bare_close(bare_store *b)
{
    sink += (unsigned char)b->room[b->used / 2];
    for (size_t i = 0; i < BARE_NAMES; i++) free(b->names[i].list);
    free(b->room);
    free(b);
}

/* Both append the same tenth of the messages, one after the other, and take turns in who
 * is first. */
static void time_slices(ms_store *store, bare_store *bare, size_t n, double spent[2])
{
    enum { SLICES = 10 };
    for (size_t i = 0; i < 2 * SLICES; i++) {
        size_t slice = i / 2, from = n * slice / SLICES, to = n * (slice + 1) / SLICES;
        size_t who = (i + slice) % 2;
        uint64_t begin = bench_now();
        if (who == 0) append(store, from, to);
        else bare_append(bare, from, to);
        spent[who] += bench_since(begin);
    }
}

static void run_arena(void)
{
    size_t n = n_messages < 1000000 ? n_messages : 1000000;
    double spent[2] = {0, 0};
    ms_store *store;
    ms_error err;
    must(ms_mem_open(&store, NULL, &err), &err);
    bare_store *bare = bare_open();
    append(store, 0, n); /* all memory is there then */
    bare_append(bare, 0, n);
    must(ms_mem_reset(store, &err), &err);
    bare_reset(bare);
    time_slices(store, bare, n, spent);
    ms_close(store);
    bare_close(bare);
    hold("A5", "time", n, "arena append, warmed", spent[0] / (double)n);
    record("  hashes, copies and a list alone", spent[1] / (double)n, "ns/message");
    hold("A5", "x floor", n, "arena append, floor to ours", spent[1] / spent[0]);
}


/* ---- keyed ---- */

enum { KEY = 16 };                /* bytes of a key's text, its NUL included */

/* Message i with the key of that number. */
static void append_keyed(ms_store *store, char (*keys)[KEY], size_t i, uint64_t *seq)
{
    ms_error err;
    ms_envelope m = bench_message(data, i % data->count);
    m.key = ms_str_n(keys[i], KEY - 1);
    ms_result result = ms_append(store, m.location, &m, seq, &err);
    if (result != MS_OK) must(result, &err);
}

/* n keys are remembered; then appends of a tenth as many new ones, and of known ones. */
static void measure_keyed(ms_store *store, char (*keys)[KEY], size_t n, bool arena)
{
    size_t few = n / 10;
    uint64_t *seqs = (uint64_t *)bench_memory((n + few) * sizeof *seqs), state = 3, seq;
    for (size_t i = 0; i < n; i++) append_keyed(store, keys, i, &seqs[i]);
    uint64_t begin = bench_now();
    for (size_t i = n; i < n + few; i++) append_keyed(store, keys, i, &seqs[i]);
    double fresh = bench_since(begin) / (double)few / 1e3;
    begin = bench_now();
    for (size_t i = 0; i < few; i++) {
        size_t pick = bench_below(&state, n);
        append_keyed(store, keys, pick, &seq);
        if (seq != seqs[pick]) die("a repeated key", "the message was appended again");
    }
    double repeated = bench_since(begin) / (double)few / 1e3;
    free(seqs);
    hold("A8", arena ? "arena, fresh" : "log, fresh", n,
         arena ? "keyed append, arena, fresh key" : "keyed append, log, fresh key",
         fresh);
    hold("A8", arena ? "arena, repeated" : "log, repeated", n,
         arena ? "keyed append, arena, known key" : "keyed append, log, known key",
         repeated);
}

static void run_keyed(void)
{
    size_t n = n_messages < 1000000 ? n_messages : 1000000;
    char (*keys)[KEY] = (char(*)[KEY])bench_memory((n + n / 10) * KEY);
    ms_store *store;
    ms_error err;
    for (size_t i = 0; i < n + n / 10; i++)
        snprintf(keys[i], KEY, "key_%011zu", i % 100000000000u);
    store = new_log(false);
    measure_keyed(store, keys, n, false);
    ms_close(store);
    unlink(path);
    must(ms_mem_open(&store, NULL, &err), &err);
    measure_keyed(store, keys, n, true);
    ms_close(store);
    free(keys);
}

#endif /* BENCH_GOALS_WRITE_H */
