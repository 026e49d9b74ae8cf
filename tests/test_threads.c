/* Many threads on one store: writers beside readers, keys and compare-and-append from
 * several sides, agents that share a memory. Threads note what is wrong; the test asserts
 * after they are joined.
 */

#define _POSIX_C_SOURCE 200809L
#include "stores.h"

#include <pthread.h>
#include <sched.h>

enum { WRITERS = 10, APPENDS = 500, READERS = 4, BATCH = 30 };

typedef struct worker {
    pthread_t thread;
    ms_store *store;
    size_t number;
    size_t rounds;
    uint64_t *seqs;           /* what the store answered */
    const bool *go_on;        /* readers: writers still write */
    const char *wrong;        /* NULL: nothing */
    uint64_t done;
} worker;

static bool is_set(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void start(worker *w, size_t n, void *(*run)(void *))
{
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&w[i].thread, NULL, run, &w[i]) != 0) abort();
}

static void join(worker *w, size_t n)
{
    for (size_t i = 0; i < n; i++) pthread_join(w[i].thread, NULL);
}

static void nothing_wrong(const worker *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (w[i].wrong != NULL) fail_msg("thread %zu: %s", i, w[i].wrong);
}

static test_store open_large(void **state)
{
    store_options options;
    memset(&options, 0, sizeof options);
    options.room = (size_t)8 << 20;
    return store_open((store_kind *)*state, &options);
}


/* ---- writers ----
 * A content is "writer count place size": the writer's running count, the place in its
 * batch and how many the batch has. */

static const char *const agents[] = {"w0", "w1", "w2", "w3", "w4",
                                     "w5", "w6", "w7", "w8", "w9"};

/* Fills `size` messages of one batch; count goes on. */
static void write_batch(size_t writer, size_t *count, size_t size, ms_envelope *out,
                        char text[][48])
{
    for (size_t i = 0; i < size; i++) {
        snprintf(text[i], 48, "%zu %zu %zu %zu", writer, (*count)++, i, size);
        out[i] = ms_observation(ms_text(text[i]), ms_str_of(NULL));
        out[i].agent_key = ms_str_of(agents[writer]);
    }
}

static void *writer(void *arg)
{
    worker *w = (worker *)arg;
    size_t count = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < w->rounds; i++) {
        ms_envelope batch[BATCH];
        char text[BATCH][48];
        uint64_t seqs[BATCH];
        ms_append_opts opts;
        const ms_msg *msg;
        size_t size = i % 10 == 0 ? BATCH : 1;
        memset(&opts, 0, sizeof opts);
        opts.location = i % 2 ? MS_STR("job") : MS_STR("other");
        opts.seqs = seqs;
        write_batch(w->number, &count, size, batch, text);
        if (ms_append_batch(w->store, batch, size, &opts, NULL) != MS_OK)
            return w->wrong = "append failed", NULL;
        if (seqs[0] <= last) return w->wrong = "sequence does not grow", NULL;
        for (size_t k = 1; k < size; k++)
            if (seqs[k] != seqs[0] + k) return w->wrong = "batch is torn apart", NULL;
        last = seqs[size - 1];
        if (ms_get_by_seq(w->store, last, NULL, &msg, NULL) != MS_OK)
            return w->wrong = "own message is not there", NULL;
        if (!ms_str_equal(ms_content(msg).text, ms_str_of(text[size - 1])))
            return w->wrong = "own message has other text", NULL;
    }
    w->done = count;
    return NULL;
}


/* ---- readers ---- */

typedef struct seen {
    uint64_t last_seq;
    size_t next[WRITERS];     /* count that each writer's next message must have */
    size_t open[WRITERS];     /* messages still missing of its batch */
    size_t n;
} seen;

/* Looks at one message of a forward reading; partial: of one location only, where counts
 * have gaps. */
static const char *look(seen *s, const ms_msg *msg, bool partial)
{
    char text[48];
    size_t w, count, place, size;
    ms_str content = ms_content(msg).text;
    if (content.len >= sizeof text) return "a text too long";
    memcpy(text, content.ptr, content.len);
    text[content.len] = '\0';
    if (sscanf(text, "%zu %zu %zu %zu", &w, &count, &place, &size) != 4 || w >= WRITERS)
        return "a text nobody wrote";
    if (!ms_str_equal(test_agent_key(msg), ms_str_of(agents[w]))) return "wrong agent";
    if (ms_seq(msg) <= s->last_seq) return "sequence does not grow";
    if (partial ? count < s->next[w] : count != s->next[w]) return "order of one writer";
    if (s->open[w] != (place == 0 ? 0 : size - place)) return "a batch seen in part";
    s->open[w] = size - place - 1;
    s->last_seq = ms_seq(msg);
    s->next[w] = count + 1;
    s->n++;
    return NULL;
}

static uint64_t total(ms_store *store)
{
    ms_stat stat;
    return ms_store_stat(store, &stat, NULL) == MS_OK ? stat.messages : 0;
}

/* Opens, lets others write on, reads: nothing of what came after may be seen. */
static const char *read_once(worker *w, size_t round)
{
    ms_str team[] = {MS_STR("w1"), MS_STR("w3"), MS_STR("w5"), MS_STR("w7")};
    bool partial = round % 2 == 1, some = round % 3 == 1;
    ms_query q = query_of(partial ? MS_STR("job") : no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    seen s;
    memset(&s, 0, sizeof s);
    if (some) q.views = MS_VIEW_TEAM;
    q.agent_keys = team;
    q.n_agent_keys = 4;
    uint64_t before = total(w->store);
    if (ms_query_open(w->store, &q, &it, NULL) != MS_OK) return "query failed";
    uint64_t after = total(w->store);
    for (int i = 0; i < 50 && total(w->store) == after && is_set(w->go_on); i++)
        sched_yield();
    while ((msg = ms_next(&it)) != NULL) {
        const char *wrong = look(&s, msg, partial);
        if (wrong != NULL) return wrong;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return "cursor failed";
    for (size_t i = 0; i < WRITERS; i++)
        if (s.open[i] != 0) return "a batch seen in part at the end";
    if (s.n > after) return "the snapshot grew";
    if (!partial && !some && s.n < before) return "messages are missing";
    w->done += s.n;
    return NULL;
}

/* The newest message of all is always the last of its batch. */
static const char *read_last(worker *w)
{
    ms_query q = query_of(no_str(), 0);
    q.limit = 1;
    for (int i = 0; i < 500; i++) {
        ms_cursor it;
        size_t place, size;
        char text[48];
        if (ms_query_open(w->store, &q, &it, NULL) != MS_OK) return "query failed";
        const ms_msg *msg = ms_next(&it);
        if (msg == NULL) continue;
        memcpy(text, ms_content(msg).text.ptr, ms_content(msg).text.len);
        text[ms_content(msg).text.len] = '\0';
        if (sscanf(text, "%*u %*u %zu %zu", &place, &size) != 2 || place + 1 != size)
            return "the newest message is not the last of its batch";
        ms_cursor_close(&it, NULL);
    }
    return NULL;
}

/* The newest few, and a listing, while others write. */
static const char *read_newest(worker *w)
{
    ms_query q = query_of(no_str(), 0);
    ms_list_query list;
    ms_listing listing;
    ms_arena arena;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t before = total(w->store), last = 0, n = 0, sum = 0;
    q.limit = 10;
    if (ms_query_open(w->store, &q, &it, NULL) != MS_OK) return "query failed";
    for (; (msg = ms_next(&it)) != NULL; last = ms_seq(msg), n++)
        if (n != 0 && ms_seq(msg) != last + 1) return "the newest are not in a row";
    if (n != 10 && n < before) return "fewer than the newest";
    if (last < before) return "older than the newest";
    ms_cursor_close(&it, NULL);
    memset(&list, 0, sizeof list);
    test_arena_init(&arena, NULL);
    if (ms_list(w->store, &list, &arena, &listing, NULL) != MS_OK) return "list failed";
    for (size_t i = 0; i < listing.count; i++) sum += listing.items[i].messages;
    ms_arena_deinit(&arena);
    return sum < before ? "the listing lacks messages" : NULL;
}

static void *reader(void *arg)
{
    worker *w = (worker *)arg;
    bool more = true;
    for (size_t round = w->number; more && w->wrong == NULL; round++) {
        more = is_set(w->go_on);    /* one more round after the last append */
        w->wrong = read_once(w, round);
        if (w->wrong == NULL) w->wrong = read_last(w);
        if (w->wrong == NULL) w->wrong = read_newest(w);
    }
    return NULL;
}

static void readers_see_order_whole_batches_and_their_snapshot(void **state)
{
    test_store s = open_large(state);
    worker writers[WRITERS], readers[READERS];
    bool go_on = true;
    uint64_t sum = 0;
    size_t rounds = test_scale() < 100 ? APPENDS / 2 : APPENDS;
    memset(writers, 0, sizeof writers);
    memset(readers, 0, sizeof readers);
    for (size_t i = 0; i < WRITERS; i++) {
        writers[i].store = s.store;
        writers[i].number = i;
        writers[i].rounds = rounds;
    }
    for (size_t i = 0; i < READERS; i++) {
        readers[i].store = s.store;
        readers[i].number = i;
        readers[i].go_on = &go_on;
    }
    start(readers, READERS, reader);
    start(writers, WRITERS, writer);
    join(writers, WRITERS);
    __atomic_store_n(&go_on, false, __ATOMIC_RELEASE);
    join(readers, READERS);
    nothing_wrong(writers, WRITERS);
    nothing_wrong(readers, READERS);
    for (size_t i = 0; i < WRITERS; i++) sum += writers[i].done;
    assert_int_equal(sum, WRITERS * (rounds + rounds / 10 * (BATCH - 1)));
    assert_int_equal(total(s.store), sum);
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(s.store, &all), sum);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_close(&s);
}


/* ---- the same keys from all sides ---- */

enum { KEYS = 200, KEY_THREADS = 8 };

static void *append_keys(void *arg)
{
    worker *w = (worker *)arg;
    for (size_t i = 0; i < KEYS; i++) {
        size_t which = w->number % 2 ? KEYS - 1 - i : i;
        char key[16];
        ms_envelope m = ms_observation(ms_text("result"), ms_str_of(NULL));
        snprintf(key, sizeof key, "key-%zu", which);
        m.key = ms_str_of(key);
        if (ms_append(w->store, MS_STR("job"), &m, &w->seqs[which], NULL) != MS_OK)
            return w->wrong = "append failed", NULL;
    }
    return NULL;
}

static void a_key_is_stored_once_whoever_comes_first(void **state)
{
    static uint64_t seqs[KEY_THREADS][KEYS];
    test_store s = open_large(state);
    worker w[KEY_THREADS];
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < KEY_THREADS; i++) {
        w[i].store = s.store;
        w[i].number = i;
        w[i].seqs = seqs[i];
    }
    start(w, KEY_THREADS, append_keys);
    join(w, KEY_THREADS);
    nothing_wrong(w, KEY_THREADS);
    assert_int_equal(total(s.store), KEYS);
    for (size_t i = 1; i < KEY_THREADS; i++)
        assert_memory_equal(seqs[i], seqs[0], sizeof seqs[0]);
    assert_int_equal(ms_selfcheck(s.store, NULL), MS_OK);
    store_close(&s);
}


/* ---- compare and append: a counter that loses no step ---- */

static bool last_number(ms_store *store, uint64_t *seq, unsigned *number)
{
    ms_cursor it;
    *seq = 0;
    *number = 0;
    ms_query q = query_of(MS_STR("counter"), 0);
    q.limit = 1;
    if (ms_query_open(store, &q, &it, NULL) != MS_OK) return false;
    const ms_msg *msg = ms_next(&it);
    if (msg != NULL) {
        char text[16] = "";
        memcpy(text, ms_content(msg).text.ptr, ms_content(msg).text.len);
        *seq = ms_seq(msg);
        *number = (unsigned)strtoul(text, NULL, 10);
    }
    return ms_cursor_close(&it, NULL) == MS_OK;
}

static void *count_up(void *arg)
{
    worker *w = (worker *)arg;
    while (w->done < w->rounds) {
        ms_append_opts opts;
        unsigned number;
        char text[16];
        memset(&opts, 0, sizeof opts);
        opts.location = MS_STR("counter");
        opts.expect = true;
        if (!last_number(w->store, &opts.expect_seq, &number))
            return w->wrong = "query failed", NULL;
        snprintf(text, sizeof text, "%u", number + 1);
        ms_envelope m = ms_observation(ms_text(text), ms_str_of(NULL)), noise = m;
        ms_result result = ms_append_batch(w->store, &m, 1, &opts, NULL);
        if (result != MS_OK && result != MS_E_CONFLICT)
            return w->wrong = "append failed", NULL;
        w->done += result == MS_OK;
        ms_append(w->store, MS_STR("elsewhere"), &noise, NULL, NULL);
    }
    return NULL;
}

static void compare_and_append_loses_no_step(void **state)
{
    test_store s = open_large(state);
    worker w[4];
    uint64_t seq;
    unsigned number;
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < 4; i++) {
        w[i].store = s.store;
        w[i].rounds = 100;
    }
    start(w, 4, count_up);
    join(w, 4);
    nothing_wrong(w, 4);
    assert_true(last_number(s.store, &seq, &number));
    assert_int_equal(number, 400);
    ms_query q = query_of(MS_STR("counter"), 0);
    assert_int_equal(count_of(s.store, &q), 400);
    store_close(&s);
}


/* ---- agents that share a memory ---- */

enum { AGENTS = 10, ADDS = 50, SHARED_READERS = 20, READS = 100 };

static const ms_str *subordinates(void)
{
    static ms_str list[AGENTS];
    if (list[0].ptr == NULL)
        for (size_t i = 0; i < AGENTS; i++) list[i] = ms_str_of(agents[i]);
    return list;
}

/* Half of the agents are in one namespace, half in another. */
static ms_str name_space(size_t number)
{
    return number % 2 ? MS_STR("odd") : MS_STR("even");
}

static void *add_to_shared(void *arg)
{
    worker *w = (worker *)arg;
    ms_memory memory;
    if (ms_shared_memory_init(&memory, w->store, name_space(w->number),
                              ms_str_of(agents[w->number]), NULL, 0, NULL) != MS_OK)
        return w->wrong = "init failed", NULL;
    for (size_t i = 0; i < ADDS; i++) {
        ms_envelope m = ms_observation(ms_text_n(name_space(w->number)), ms_str_of(NULL));
        ms_result result;
        if (i % 10 == 9) {
            m = ms_message(MS_T_GLOBAL_OBSERVATION, ms_text_n(name_space(w->number)));
            result = ms_memory_broadcast(&memory, &m, NULL, NULL);
        } else if (i % 10 == 8) {
            result = test_memory_turn(&memory, MS_ROLE_USER,
                                    ms_text_n(name_space(w->number)), NULL, NULL);
        } else {
            result = ms_memory_add(&memory, &m, NULL, NULL);
        }
        if (result != MS_OK) return w->wrong = "add failed", NULL;
        w->done++;
    }
    return NULL;
}

/* A manager or a worker; a history never shrinks, nor shows another namespace. */
static void *read_shared(void *arg)
{
    worker *w = (worker *)arg;
    bool manager = w->number % 3 == 0;
    size_t before = 0;
    ms_memory memory;
    if (ms_shared_memory_init(&memory, w->store, name_space(w->number),
                              ms_str_of(agents[w->number % AGENTS]), subordinates(),
                              manager ? AGENTS : 0, NULL) != MS_OK)
        return w->wrong = "init failed", NULL;
    for (size_t i = 0; i < READS; i++) {
        ms_cursor it;
        const ms_msg *msg;
        size_t n = 0;
        if (ms_get_history(&memory, &it, NULL) != MS_OK)
            return w->wrong = "history failed", NULL;
        for (; (msg = ms_next(&it)) != NULL; n++)
            if (!ms_str_equal(ms_content(msg).text, name_space(w->number)))
                return w->wrong = "a message of another namespace", NULL;
        if (ms_cursor_close(&it, NULL) != MS_OK) return w->wrong = "cursor failed", NULL;
        if (n < before) return w->wrong = "the history shrank", NULL;
        before = n;
    }
    return NULL;
}

static void agents_share_a_memory(void **state)
{
    test_store s = open_large(state);
    worker adders[AGENTS], readers[SHARED_READERS];
    memset(adders, 0, sizeof adders);
    memset(readers, 0, sizeof readers);
    subordinates();
    for (size_t i = 0; i < AGENTS; i++) {
        adders[i].store = s.store;
        adders[i].number = i;
    }
    for (size_t i = 0; i < SHARED_READERS; i++) {
        readers[i].store = s.store;
        readers[i].number = i;
    }
    start(adders, AGENTS, add_to_shared);
    start(readers, SHARED_READERS, read_shared);
    join(adders, AGENTS);
    join(readers, SHARED_READERS);
    nothing_wrong(adders, AGENTS);
    nothing_wrong(readers, SHARED_READERS);
    assert_int_equal(total(s.store), AGENTS * ADDS);
    ms_query odd = query_of(MS_STR("odd"), 0);
    assert_int_equal(count_of(s.store, &odd), AGENTS * ADDS / 2);
    odd.views = MS_VIEW_CONVERSATION;
    assert_int_equal(count_of(s.store, &odd), AGENTS / 2 * ADDS / 10);
    odd.views = MS_VIEW_GLOBAL;
    assert_int_equal(count_of(s.store, &odd), AGENTS / 2 * ADDS / 10);
    store_close(&s);
}


/* ---- edits, read while others append ---- */

enum { EDITED = 200 };

static void *append_beside(void *arg)
{
    worker *w = (worker *)arg;
    ms_envelope m = ms_user_message(ms_text("beside"));
    for (size_t i = 0; i < EDITED * 4; i++)
        if (ms_append(w->store, MS_STR("elsewhere"), &m, NULL, NULL) != MS_OK)
            return w->wrong = "append failed", NULL;
    return NULL;
}

/* Each second message is hidden, each third says something else. */
static void *read_edited(void *arg)
{
    worker *w = (worker *)arg;
    for (size_t i = 0; i < 20; i++) {
        ms_cursor it;
        const ms_msg *msg;
        size_t n = 0;
        ms_query q = query_of(MS_STR("edited"), 0);
        if (ms_query_open(w->store, &q, &it, NULL) != MS_OK)
            return w->wrong = "no query", NULL;
        while ((msg = ms_next(&it)) != NULL) {
            bool amended = ms_seq(msg) % 3 == 0;
            n++;
            if (!ms_str_equal(ms_content(msg).text, amended ? MS_STR("new") : MS_STR("old")))
                w->wrong = "another text";
        }
        if (ms_cursor_close(&it, NULL) != MS_OK || n != EDITED / 2)
            return w->wrong = "not all that is visible", NULL;
    }
    return NULL;
}

static void edits_are_read_while_others_append(void **state)
{
    test_store s = open_large(state);
    ms_envelope old = ms_user_message(ms_text("old"));
    ms_envelope new_text = ms_user_message(ms_text("new"));
    worker writer_beside, readers[READERS];
    memset(&writer_beside, 0, sizeof writer_beside);
    memset(readers, 0, sizeof readers);
    for (uint64_t i = 1; i <= EDITED; i++) {
        uint64_t seq;
        assert_int_equal(ms_append(s.store, MS_STR("edited"), &old, &seq, NULL), MS_OK);
        assert_int_equal(seq, i);
        if (i % 3 == 0) assert_int_equal(ms_amend(s.store, i, &new_text, NULL), MS_OK);
        if (i % 2 == 0) assert_int_equal(ms_hide(s.store, i, NULL), MS_OK);
    }
    writer_beside.store = s.store;
    for (size_t i = 0; i < READERS; i++) readers[i].store = s.store;
    start(&writer_beside, 1, append_beside);
    start(readers, READERS, read_edited);
    join(&writer_beside, 1);
    join(readers, READERS);
    nothing_wrong(&writer_beside, 1);
    nothing_wrong(readers, READERS);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(readers_see_order_whole_batches_and_their_snapshot),
        ON_EVERY_STORE(a_key_is_stored_once_whoever_comes_first),
        ON_EVERY_STORE(compare_and_append_loses_no_step),
        ON_EVERY_STORE(agents_share_a_memory),
        ON_EVERY_STORE(edits_are_read_while_others_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
