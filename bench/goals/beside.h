/* The groups of goals.c in which several work at once, or one beside changes of others:
 * writers, threads, beside, changes. Part of that program. */

#ifndef BENCH_GOALS_BESIDE_H
#define BENCH_GOALS_BESIDE_H

/* ---- writers ---- */

enum { SHARE = 25000 };           /* appends of one writer */

/* What writers tell; memory that they share. */
typedef struct crew {
    int ready, go;
    uint64_t done[WRITERS_MOST];  /* so far */
    uint64_t slowest[WRITERS_MOST]; /* ns of the longest one */
    uint64_t begun, ended;        /* ns of the clock; ended: the last of them */
    uint64_t behind;              /* done by the slowest when the first had ended, + 1 */
} crew;

static void crew_start(crew *c)
{
    __atomic_add_fetch(&c->ready, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&c->go, __ATOMIC_ACQUIRE)) continue;
}

static void crew_count(crew *c, size_t who, uint64_t spent)
{
    if (spent > c->slowest[who]) c->slowest[who] = spent;
    __atomic_store_n(&c->done[who], c->done[who] + 1, __ATOMIC_RELEASE);
}

static void crew_end(crew *c, size_t n)
{
    uint64_t least = SHARE, now = bench_now(), none = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t done = __atomic_load_n(&c->done[i], __ATOMIC_ACQUIRE);
        if (done < least) least = done;
    }
    __atomic_compare_exchange_n(&c->behind, &none, least + 1, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    for (uint64_t was = __atomic_load_n(&c->ended, __ATOMIC_ACQUIRE); was < now;)
        if (__atomic_compare_exchange_n(&c->ended, &was, now, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            break;
}

static void crew_appends(crew *c, size_t who, size_t n)
{
    ms_store *store;
    ms_error err;
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.shared = true;
    must(ms_log_open(&store, &desc, &err), &err);
    crew_start(c);
    for (size_t i = 0; i < SHARE; i++) {
        ms_envelope m = bench_message(data, (who * SHARE + i) % data->count);
        uint64_t begin = bench_now();
        must(ms_append(store, m.location, &m, NULL, &err), &err);
        crew_count(c, who, bench_now() - begin);
    }
    crew_end(c, n);
    ms_close(store);
}

/* The floor: the lock of a file, taken and given back; 16 tries at once, then pauses of
 * 50 us. */
static void crew_locks(crew *c, size_t who, size_t n)
{
    const ms_os *os = ms_os_default();
    ms_file file;
    if (os->open(os->ctx, path, MS_OS_READ | MS_OS_WRITE | MS_OS_CREATE, &file) != 0)
        die(path, "it cannot be opened");
    crew_start(c);
    for (size_t i = 0; i < SHARE; i++) {
        uint64_t begin = bench_now();
        for (int tries = 1; os->lock(os->ctx, file) != 0; tries++)
            if (tries > 16) os->sleep(os->ctx, 50);
        os->unlock(os->ctx, file);
        crew_count(c, who, bench_now() - begin);
    }
    crew_end(c, n);
    os->close(os->ctx, file);
}

static void crew_member(crew *c, size_t who, size_t n,
                        void (*work)(crew *, size_t, size_t))
{
    folder[0] = '\0'; /* the parent's to remove */
    for (int i = 0; i < WRITERS_MOST; i++) writers[i] = 0;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    work(c, who, n);
    _exit(0);
}

/* n processes begin together; *c tells how it went. */
static void crew_run(crew *c, size_t n, void (*work)(crew *, size_t, size_t))
{
    memset(c, 0, sizeof *c);
    unlink(path);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = fork();
        must_have(pid >= 0, "fork");
        if (pid == 0) crew_member(c, i, n, work);
        writers[i] = pid;
    }
    while (__atomic_load_n(&c->ready, __ATOMIC_ACQUIRE) < (int)n) {
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0) die("a writer", "it ended too early");
        usleep(100);
    }
    c->begun = bench_now();
    __atomic_store_n(&c->go, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < n; i++) {
        int status;
        must_have(waitpid(writers[i], &status, 0) == writers[i], "waiting for a writer");
        writers[i] = 0;
        if (status != 0) die("a writer", "it failed");
    }
}

static void record_crew(const crew *c, size_t n, bool appends)
{
    char label[64];
    const char *who = n == 1 ? "writer" : "writers";
    double rate = (double)(n * SHARE) / (double)(c->ended - c->begun) * 1e6;
    uint64_t slowest = 0;
    for (size_t i = 0; i < n; i++)
        if (c->slowest[i] > slowest) slowest = c->slowest[i];
    snprintf(label, sizeof label, appends ? "%zu %s, appends" : "  %zu %s, bare locks", n,
             who);
    if (appends) hold("log", "writers", n * SHARE, label, rate);
    else record(label, rate, "1000/s");
    snprintf(label, sizeof label,
             appends ? "%zu %s, longest append" : "  %zu %s, longest bare lock", n, who);
    if (appends) hold("log", "longest", n * SHARE, label, (double)slowest / 1e6);
    else record(label, (double)slowest / 1e6, "ms");
    if (n == 1) return;
    snprintf(label, sizeof label,
             appends ? "%zu %s, share of the slowest"
                     : "  %zu %s, bare, share of the slowest",
             n, who);
    record(label, 100 * (double)(c->behind - 1) / SHARE, "%");
}

static void run_writers(void)
{
    static crew *c;
    if (c == NULL) {
        void *memory = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must_have(memory != MAP_FAILED, "shared memory");
        c = (crew *)memory;
    }
    ms_close(new_log(false)); /* tells the engine */
    for (size_t n = 1; n <= WRITERS_MOST; n *= 2) {
        ms_stat stat;
        ms_error err;
        crew_run(c, n, crew_appends);
        record_crew(c, n, true);
        ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
        must(ms_store_stat(store, &stat, &err), &err);
        ms_close(store);
        if (stat.messages != n * SHARE) die("several writers", "messages are missing");
        crew_run(c, n, crew_locks);
        record_crew(c, n, false);
        unlink(path);
    }
}


/* ---- threads ---- */

enum { THREADS = 8 };

typedef struct thread_job {
    pthread_t thread;
    ms_store *store;
    size_t from, to;
} thread_job;

static void *append_job(void *at)
{
    thread_job *job = (thread_job *)at;
    ms_error err;
    for (size_t i = job->from; i < job->to; i++) {
        ms_envelope m = bench_message(data, i % data->count);
        ms_result result = ms_append(job->store, m.location, &m, NULL, &err);
        if (result != MS_OK) must(result, &err);
    }
    return NULL;
}

/* Synced appends in a millisecond, by so many threads of one handle of a reopened log. */
static double synced_rate(size_t threads)
{
    thread_job jobs[THREADS];
    size_t each = n_synced(), base = n_messages < 10000 ? n_messages : 10000;
    ms_store *store = new_log(false);
    append(store, 0, base);
    ms_close(store);
    settle(false);
    store = open_log(MS_LOG_WRITE, MS_SYNC_EACH, false);
    uint64_t begin = bench_now();
    for (size_t i = 0; i < threads; i++) {
        jobs[i].store = store;
        jobs[i].from = base + i * each;
        jobs[i].to = jobs[i].from + each;
        int code = pthread_create(&jobs[i].thread, NULL, append_job, &jobs[i]);
        if (code != 0) die("a thread", strerror(code));
    }
    for (size_t i = 0; i < threads; i++) pthread_join(jobs[i].thread, NULL);
    double spent = bench_since(begin);
    ms_close(store);
    unlink(path);
    return (double)(threads * each) / spent * 1e6;
}

static void run_threads(void)
{
    double one = synced_rate(1), all = synced_rate(THREADS);
    record("sync each, 1 thread", one, "1000/s");
    record("sync each, 8 threads", all, "1000/s");
    hold("A7", "8 threads", n_synced(), "sync each, 8 threads to 1", all / one);
}


/* ---- beside ---- */

/* Memory that the parent shares with a writer and a reader. */
typedef struct pair {
    int ready, go, stop;
    uint64_t done[2], spent[2]; /* messages, and the nanoseconds for them */
} pair;

enum { PAIR_WRITER = 1, PAIR_READER = 2 };

static bool pair_stopped(const pair *p)
{
    return __atomic_load_n(&p->stop, __ATOMIC_ACQUIRE) != 0;
}

static uint64_t pair_begin(pair *p)
{
    __atomic_add_fetch(&p->ready, 1, __ATOMIC_ACQ_REL);
    while (!__atomic_load_n(&p->go, __ATOMIC_ACQUIRE)) continue;
    return bench_now();
}

/* Appends to locations that nobody reads, so that the views stay as they are. */
static void pair_write(pair *p)
{
    ms_error err;
    ms_store *store = open_log(MS_LOG_WRITE, MS_SYNC_NONE, false);
    uint64_t done = 0, begin = pair_begin(p);
    for (; !pair_stopped(p); done++) {
        char name[BENCH_NAME];
        ms_envelope m = bench_message(data, done % data->count);
        memcpy(name, m.location.ptr, BENCH_NAME);
        name[0] = 'L';
        must(ms_append(store, ms_str_n(name, m.location.len), &m, NULL, &err), &err);
    }
    p->spent[0] = bench_now() - begin;
    p->done[0] = done;
    ms_close(store);
}

static void pair_read(pair *p)
{
    ms_store *store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    uint64_t draw = 17, done = 0;
    for (int i = 0; i < 200; i++)
        read_view(store, CONVERSATION, 0, BENCH_LOCATIONS, &draw);
    uint64_t begin = pair_begin(p);
    while (!pair_stopped(p))
        done += read_view(store, CONVERSATION, 0, BENCH_LOCATIONS, &draw);
    p->spent[1] = bench_now() - begin;
    p->done[1] = done;
    ms_close(store);
}

static void pair_start(pair *p, size_t who, void (*work)(pair *))
{
    pid_t pid = fork();
    must_have(pid >= 0, "fork");
    if (pid == 0) {
        folder[0] = '\0'; /* the parent's to remove */
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        work(p);
        _exit(0);
    }
    writers[who] = pid;
}

/* Who of the two runs, in a log of its own making, for a while; rates[0] and [1] are
 * messages a microsecond, those of who did not run stay. */
static void pair_run(pair *p, int who, double rates[2])
{
    size_t base = n_messages < 200000 ? n_messages : 200000;
    int members = (who & PAIR_WRITER ? 1 : 0) + (who & PAIR_READER ? 1 : 0);
    memset(p, 0, sizeof *p);
    ms_store *store = new_log(false);
    append(store, 0, base);
    ms_close(store);
    if (who & PAIR_WRITER) pair_start(p, 0, pair_write);
    if (who & PAIR_READER) pair_start(p, 1, pair_read);
    while (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) < members) {
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0) die("beside", "one ended too early");
        usleep(100);
    }
    __atomic_store_n(&p->go, 1, __ATOMIC_RELEASE);
    usleep(n_messages < 100000 ? 30000 : quick ? 200000 : 700000);
    __atomic_store_n(&p->stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        int status = 0;
        if (writers[i] == 0) continue;
        must_have(waitpid(writers[i], &status, 0) == writers[i], "waiting for one");
        writers[i] = 0;
        if (status != 0) die("beside", "one failed");
        rates[i] = (double)p->done[i] / (double)p->spent[i] * 1e3;
    }
    unlink(path);
}

static void run_beside(void)
{
    static pair *p;
    double alone[2], both[2];
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        fprintf(stderr, "skipped: beside needs two processors\n");
        return;
    }
    if (p == NULL) {
        void *memory = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must_have(memory != MAP_FAILED, "shared memory");
        p = (pair *)memory;
    }
    pair_run(p, PAIR_WRITER, alone);
    pair_run(p, PAIR_READER, alone);
    pair_run(p, PAIR_WRITER | PAIR_READER, both);
    record("writer alone", alone[0], "million/s");
    record("  beside a reader", both[0], "million/s");
    hold("C1", "writer", n_messages, "writer beside a reader, to alone",
         both[0] / alone[0]);
    record("reader alone", alone[1], "million/s");
    record("  beside a writer", both[1], "million/s");
    hold("C1", "reader", n_messages, "reader beside a writer, to alone",
         both[1] / alone[1]);
}


/* ---- changes ---- */

enum { PLAIN, AGAIN, CHANGED, KINDS, ALTERED = 1, BLOCKS = 99, AT_MOST = 200000 };

/* Appends n messages; with changes in the location ALTERED. */
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

/* Nanoseconds a query (limit 20) or a message (0). */
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
    static const char *const names[KINDS] = {"no changes", "again", "changes"};
    static double times[KINDS][BLOCKS];
    char label[64];
    const char *what = limit > 0 ? "newest 20" : "view";
    for (size_t block = 0; block <= BLOCKS; block++) {
        size_t rows[KINDS];
        for (size_t turn = 0; turn < KINDS; turn++) {
            size_t k = (block + turn) % KINDS;
            double spent = read_block(stores[k], limit, altered, block, &rows[k]);
            if (block > 0) times[k][block - 1] = spent; /* the first one warms up */
        }
        if (rows[PLAIN] != rows[AGAIN] || (!altered && rows[PLAIN] != rows[CHANGED]))
            die("changes", "a view has other messages");
    }
    for (size_t k = 0; k < KINDS; k++)
        qsort(times[k], BLOCKS, sizeof times[k][0], bench_compare_doubles);
    double plain = times[PLAIN][BLOCKS / 2];
    snprintf(label, sizeof label, "%s, %s%s, %s", kind, what, altered ? " of one" : "",
             names[PLAIN]);
    record(label, plain, limit > 0 ? "ns/query" : "ns/message");
    for (size_t k = AGAIN; k < KINDS; k++) {
        double value = times[k][BLOCKS / 2];
        bool other = k == CHANGED && !altered;
        snprintf(label, sizeof label, "%s, %s%s, %s", kind, what, altered ? " of it" : "",
                 k == AGAIN ? "the same again" : other ? "others changed" : "changed");
        if (other) hold("log", "changes", n_messages, label, 100 * (value / plain - 1));
        else record(label, 100 * (value / plain - 1), "% more");
    }
}

static ms_store *changes_log(const char *at, size_t n, bool change)
{
    char kept[sizeof path];
    memcpy(kept, path, sizeof path);
    if (at != path) memcpy(path, at, sizeof path);
    ms_store *store = new_log(false);
    fill(store, n, change);
    ms_close(store);
    read_file();
    store = open_log(MS_LOG_READ, MS_SYNC_NONE, false);
    memcpy(path, kept, sizeof path);
    return store;
}

static void run_changes(void)
{
    size_t n = n_messages < AT_MOST ? n_messages : AT_MOST;
    ms_store *stores[KINDS];
    ms_error err;
    for (int arena = 0; arena < 2; arena++) {
        const char *kind = arena ? "arena" : "log";
        for (size_t k = 0; k < KINDS; k++) {
            if (!arena) {
                stores[k] = changes_log(k == 0 ? path : others[k - 1], n, k == CHANGED);
                continue;
            }
            must(ms_mem_open(&stores[k], NULL, &err), &err);
            fill(stores[k], n, k == CHANGED);
        }
        for (int altered = 0; altered < 2; altered++) {
            compare_blocks(stores, kind, 20, altered);
            compare_blocks(stores, kind, 0, altered);
        }
        for (size_t k = 0; k < KINDS; k++) ms_close(stores[k]);
        unlink(others[0]);
        unlink(others[1]);
        unlink(path);
    }
}

#endif /* BENCH_GOALS_BESIDE_H */
