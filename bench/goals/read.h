/* The groups of goals.c that read what was written, and count what it takes: tail, views,
 * open, verify, disk, reader, hot, old, many, search, crash. Part of that program. */

#ifndef BENCH_GOALS_READ_H
#define BENCH_GOALS_READ_H

/* ---- tail, views, open, verify, disk: a file that was closed ---- */

static void measure_tail(ms_store *store, int view, size_t locations)
{
    const int queries = quick ? 20000 : 100000;
    char label[64], what[64];
    uint64_t warm = 7, state = 7;
    for (int i = 0; i < 2000; i++) read_view(store, view, 20, locations, &warm);
    uint64_t begin = bench_now();
    for (int i = 0; i < queries; i++) read_view(store, view, 20, locations, &state);
    double each = bench_since(begin) / queries;
    snprintf(what, sizeof what, "newest 20, %s%s", view_names[view],
             locations == 1 ? ", hottest" : "");
    hold("log", "tail", n_messages, labelled(label, what, n_messages), each / 1e3);
}

static void run_tail(void)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    for (int view = CONVERSATION; view <= AGENT; view++) {
        measure_tail(store, view, BENCH_LOCATIONS);
        measure_tail(store, view, 1);
    }
    ms_close(store);
}

static void run_views(void)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    for (int view = CONVERSATION; view < VIEWS; view++) {
        char label[64], what[64];
        uint64_t state = 11;
        uint64_t begin = 0;
        size_t rows = 0, least = n_messages / 2;
        for (int round = 0; round < 2; round++) { /* the first one warms up */
            begin = bench_now();
            for (rows = 0; rows < least;)
                rows += read_view(store, view, 0, BENCH_LOCATIONS, &state);
        }
        double each = bench_since(begin) / (double)rows;
        snprintf(what, sizeof what, "view, %s", view_names[view]);
        record(labelled(label, what, n_messages), each, "ns/message");
    }
    ms_close(store);
}

/* The largest to the least of the times of all sizes, told at the largest size. The
 * sizes of a run come in order. */
static void hold_flat(int who, size_t n, double spent)
{
    static const char *const which[2] = {"flat, reader", "flat, writer"};
    static const char *const what[2] = {"open to answer, reader, largest to least",
                                        "open to answer, writer, largest to least"};
    static double least[2], most[2];
    if (least[who] <= 0 || spent < least[who]) least[who] = spent;
    if (spent > most[who]) most[who] = spent;
    if (n < n_messages) return;
    if (n > 10000) hold("O1", which[who], n, what[who], most[who] / least[who]);
    least[who] = most[who] = 0;
}

static void run_open(size_t n)
{
    hold_flat(0, n,
              open_answer_close(MS_LOG_READ, "open to answer, reader", n, "O1",
                                "warm, reader"));
    hold_flat(1, n,
              open_answer_close(MS_LOG_WRITE, "open to answer, writer", n, "O1",
                                "warm, writer"));
    settle(true);
    open_answer_close(MS_LOG_READ, "open to answer, cold, reader", n, "O1",
                      "cold, reader");
    settle(true);
    open_answer_close(MS_LOG_WRITE, "open to answer, cold, writer", n, "O1",
                      "cold, writer");
    read_file();
}

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
    if (report.messages != n_messages) die("verify", "messages are missing");
    hold("O3", "verify", n_messages, "verify", (double)report.bytes / spent);
}

static void run_disk(size_t n)
{
    struct stat st;
    char label[64];
    double fields = (data->payload + data->names) * (double)n / (double)data->count;
    must_have(stat(path, &st) == 0, path);
    hold("D1", "ratio", n, labelled(label, "bytes on disk / bytes of fields", n),
         (double)st.st_blocks * 512 / fields);
}


/* ---- reader ---- */

/* Every view of a location: the conversation, all agents, the global one. */
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

static void run_reader(void)
{
    ms_log_info info;
    ms_error err;
    char label[64];
    double before = anonymous_bytes();
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    read_location(store, BENCH_LOCATIONS / 2);
    double one = (anonymous_bytes() - before) / 1048576;
    for (size_t i = 0; i < BENCH_LOCATIONS; i++) read_location(store, i);
    double all = (anonymous_bytes() - before) / 1048576;
    must(ms_log_stat(store, &info, &err), &err);
    double told = (double)info.memory / 1048576;
    ms_close(store);
    if (before >= 0) {
        record(labelled(label, "memory of a reader, one location", n_messages), one,
               "MiB");
        hold("M2", "RssAnon", n_messages,
             labelled(label, "memory of a reader, RssAnon", n_messages), all);
    }
    hold("M2", "as it says", n_messages,
         labelled(label, "memory of a reader, as it says", n_messages), told);
}


/* ---- hot ---- */

/* Microseconds of the newest 20 of the hottest location, in a log of n messages. */
static double measure_hot(size_t n)
{
    const int queries = quick ? 20000 : 100000;
    char label[64];
    uint64_t draw = 7;
    ms_store *store = new_log(false);
    append(store, 0, n);
    ms_close(store);
    read_file();
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    for (int i = 0; i < 2000; i++) read_view(store, CONVERSATION, 20, 1, &draw);
    uint64_t begin = bench_now();
    for (int i = 0; i < queries; i++) read_view(store, CONVERSATION, 20, 1, &draw);
    double each = bench_since(begin) / queries / 1e3;
    ms_close(store);
    hold("R3", "time", n, labelled(label, "newest 20, one location, fixed", n), each);
    return each;
}

static void run_hot(void)
{
    static const size_t sizes[] = {10000, 100000, 1000000, 10000000};
    double least = 0, most = 0;
    size_t taken = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] > n_messages && i > 0) break;
        double each = measure_hot(sizes[i] < n_messages ? sizes[i] : n_messages);
        if (taken == 0 || each < least) least = each;
        if (each > most) most = each;
        taken++;
    }
    if (taken > 1)
        hold("R3", "flat", n_messages, "newest 20, fixed, largest to least",
             most / least);
}


/* ---- old ---- */

/* The newest 20 of each of so many locations that say nothing any more. */
static double read_old(ms_store *store, size_t locations)
{
    ms_error err;
    uint64_t begin = bench_now();
    for (size_t i = 0; i < locations; i++) {
        char name[BENCH_NAME];
        ms_cursor it;
        snprintf(name, sizeof name, "old_%04u", (unsigned)(i * 1009 % locations));
        must(ms_get_conversation_messages(store, bench_name(name), 20, &it, &err), &err);
        if (read_all(&it) != 20) die("an old location", "it has lost messages");
    }
    return bench_since(begin) / (double)locations / 1e3;
}

static void run_old(void)
{
    size_t locations = n_messages / 1000;
    char label[64];
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
    read_file();
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    double first = read_old(store, locations), again = read_old(store, locations);
    ms_close(store);
    unlink(path);
    hold("R5", "time", n_messages, labelled(label, "newest 20, long ago", n_messages),
         first);
    record(labelled(label, "  the same locations again", n_messages), again, "us/query");
}


/* ---- many ---- */

/* Message i of location `where`: 100 bytes, in turn of the user and of an agent. */
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

/* Ten rounds over all locations, each in the order of a stride that meets all of them. */
static void run_many(void)
{
    enum { EACH = 10, STRIDE = 1000003 };
    size_t locations = n_messages / EACH;
    double fields = 0;
    struct stat st;
    char label[64];
    ms_error err;
    ms_store *store = new_log(false);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < EACH * locations; i++) {
        char name[BENCH_NAME];
        ms_envelope m = small_message(i / locations, i * STRIDE % locations, name);
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        fields += (double)(m.location.len + m.agent_key.len + m.content.text.len +
                           strlen(ms_type_word(m.type)) + sizeof m.time_ns);
    }
    double each = bench_since(begin) / (double)(EACH * locations);
    ms_close(store);
    must_have(stat(path, &st) == 0, path);
    unlink(path);
    hold("D2", "ratio", locations, labelled(label, "bytes on disk, locations", locations),
         (double)st.st_blocks * 512 / fields);
    record(labelled(label, "  append to so many locations", locations), each,
           "ns/message");
}


/* ---- search ---- */

enum { RARE = 16384 };            /* one message in so many has the rare text */

/* Appends until the file has so many bytes; returns how many messages have the text. */
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

/* Nanoseconds that a whole search takes. */
static double search(ms_store *store, const char *text, size_t wanted_matches)
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
    uint64_t looked_at = finder.it.returned;
    must(ms_find_close(&finder, &err), &err);
    double spent = bench_since(begin);
    sink += looked_at;
    if (matches != wanted_matches) die("search", "not as many matches as there are");
    return spent;
}

/* The file read, and its map added up twice. */
static void measure_floor(size_t bytes)
{
    static char piece[256 << 10];
    int file = open(path, O_RDONLY);
    must_have(file >= 0, path);
    uint64_t begin = bench_now();
    while (read(file, piece, sizeof piece) > 0) sink += (unsigned char)piece[0];
    record("  the file read", (double)bytes / bench_since(begin), "GB/s");
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    must_have(map != MAP_FAILED, "a map");
    for (int pass = 0; pass < 2; pass++) {
        unsigned long long sum = 0;
        const uint64_t *words = (const uint64_t *)map;
        begin = bench_now();
        for (size_t i = 0; i < bytes / 8; i++) sum += words[i];
        sink += sum;
        record(pass == 0 ? "  its map added up, first time" : "  its map added up, again",
               (double)bytes / bench_since(begin), "GB/s");
    }
    munmap(map, bytes);
    close(file);
}

static void run_search(void)
{
    static const struct {
        const char *text, *what;
        bool rare;
    } rows[] = {{"zeppelin", "search, nowhere", false},
                {"the rows of the table", "search, common letters", false},
                {"xylophone", "search, rare", true}};
    struct stat st;
    size_t rare = write_searched((uint64_t)n_messages * 1074);
    read_file();
    must_have(stat(path, &st) == 0, path);
    double bytes = (double)st.st_size;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[64];
        size_t matches = rows[i].rare ? rare : 0;
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        double first = search(store, rows[i].text, matches);
        double again = search(store, rows[i].text, matches);
        ms_close(store);
        snprintf(label, sizeof label, "%s, first pass", rows[i].what);
        record(label, bytes / first, "GB/s");
        hold("log", "search", n_messages, rows[i].what, bytes / again);
    }
    measure_floor((size_t)st.st_size);
}


static void run_closed(size_t n)
{
    ms_store *store = new_log(false);
    append(store, 0, n);
    ms_close(store);
    read_file();
    if (wanted("disk") && n > 10000) run_disk(n);
    if (wanted("open")) run_open(n);
    if (n < n_messages) return;
    if (wanted("tail")) run_tail();
    if (wanted("views")) run_views();
    if (wanted("reader")) run_reader();
    if (wanted("verify")) run_verify();
}


/* ---- crash ---- */

/* Appends n messages, tells, appends on and waits for its death. */
static void write_until_killed(size_t n, int tell, int wait)
{
    char byte = 1;
    folder[0] = '\0'; /* the parent's to remove */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    ms_store *store = new_log(false);
    append(store, 0, n);
    if (write(tell, &byte, 1) == 1) append(store, 0, n / 16);
    if (read(wait, &byte, 1) < 0) _exit(2);
    _exit(1); /* the parent died first */
}

static void run_crash(size_t n)
{
    int told[2], held[2], status = 0;
    char byte;
    must_have(pipe(told) == 0 && pipe(held) == 0, "pipe");
    child = fork();
    must_have(child >= 0, "fork");
    if (child == 0) {
        close(told[0]);
        close(held[1]);
        write_until_killed(n, told[1], held[0]);
    }
    close(told[1]);
    close(held[0]);
    if (read(told[0], &byte, 1) != 1) die("the writer", "it ended by itself");
    kill(child, SIGKILL);
    must_have(waitpid(child, &status, 0) == child, "waiting for its death");
    if (!WIFSIGNALED(status)) die("the writer", "it was not killed");
    child = 0;
    close(told[0]);
    close(held[1]);
    open_answer_close(MS_LOG_READ, "open after kill, reader", n, "O2", "reader");
    open_answer_close(MS_LOG_WRITE, "open after kill, writer", n, "O2", "writer");

    ms_stat stat;
    ms_error err;
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    must(ms_store_stat(store, &stat, &err), &err);
    ms_close(store);
    if (stat.messages < n) die("after the kill", "messages are missing");
}

#endif /* BENCH_GOALS_READ_H */
