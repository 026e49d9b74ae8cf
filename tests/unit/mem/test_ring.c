/* A ring: an arena store that drops its oldest messages instead of being full. The list
 * of its records (ring_operations.h) drops by the words of [api-ring]. The store reports
 * how often it dropped; the list alone knows what is left, record by record.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_RING
#include "ring_operations.h"

typedef struct life {
    list l;
    uint64_t given, dropped, drops;
} life;


/* ---- the rule ---- */

static bool begins_turn(const ms_msg *msg, const ms_msg *before)
{
    ms_str turn = test_turn_id(msg), last = test_turn_id(before);
    if (turn.len > 0 || last.len > 0) return !ms_str_equal(turn, last);
    return ms_type_of(msg) == MS_T_USER_MESSAGE;
}

/* The number of the first message of a place that stays; UINT64_MAX: none. */
static uint64_t first_kept(const list *l, unsigned place, uint32_t x, uint32_t far)
{
    uint32_t unit = 8;
    uint64_t from = UINT64_MAX;
    const ms_msg *before = NULL;
    for (size_t i = 0; i < l->n; unit += record_units(l->items[i++])) {
        const ms_msg *msg = l->items[i];
        if (!record_is(msg, MS_KIND_MESSAGE) || record_place(msg) != place) continue;
        if (unit >= x) {
            if (from == UINT64_MAX) from = ms_seq(msg);
            if (before == NULL || unit >= far) return from;
            if (begins_turn(msg, before)) return ms_seq(msg);
        }
        before = msg;
    }
    return from;
}

static void drop(life *f)
{
    list *l = &f->l;
    uint64_t first[PLACES], facts = 0, last = 0;
    uint32_t units = 0, unit = 8;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        units += record_units(l->items[i]);
        if (record_is(l->items[i], MS_KIND_LOCATION))
            facts += 8 * record_units(l->items[i]);
    }
    uint32_t x = 8 + units / 3 + 1;
    for (unsigned i = 0; i < PLACES; i++) first[i] = first_kept(l, i, x, x + units / 2);
    for (size_t i = 0; i < l->n; i++) {
        ms_msg *msg = l->items[i];
        bool stays = msg != NULL && record_last(msg) >= first[record_place(msg)];
        if (record_is(msg, MS_KIND_LOCATION)) {
            stays = facts <= units / 2 &&
                    (unit >= x || first[record_place(msg)] != UINT64_MAX);
            if (!stays) facts -= 8 * record_units(msg);
        }
        if (record_is(msg, MS_KIND_MESSAGE)) {
            if (stays) last = ms_seq(msg);
            else f->dropped++;
        }
        unit += record_units(msg);
        if (stays) l->items[n++] = msg;
        else free(msg);
    }
    l->n = n;
    if (last < f->given) list_put(l, NULL);
    f->drops++;
}

/* Drops as often as the store did. */
static void follow(life *f, ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    while (f->drops < stat.as_of >> 32) drop(f);
    assert_int_equal(f->dropped, stat.dropped);
}

static void compare(const life *f, ms_store *store)
{
    list now = {NULL, 0, 0};
    ms_stat stat;
    size_t n = 0;
    list_read(&now, store, 0);
    for (size_t i = 0; i < f->l.n; i++) {
        if (f->l.items[i] == NULL) continue;
        assert_true(n < now.n && record_same(f->l.items[i], now.items[n]));
        n++;
    }
    assert_int_equal(n, now.n);
    list_empty(&now);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.given_seq, f->given);
    must_show_all(&f->l, store);
    must_show_its_image(store);
}


/* ---- random lives ---- */

static ms_mem_desc ring_desc(void *buffer, size_t size)
{
    ms_mem_desc desc = {.buffer = buffer, .buffer_size = size, .keep_unset_times = true,
                        .drop_oldest = true};
    return desc;
}

static ms_store *open_ring(void *buffer, size_t size)
{
    ms_mem_desc desc = ring_desc(buffer, size);
    ms_store *store;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    return store;
}

/* Who has the key of the only message of an append; 0: none. */
static uint64_t key_holder(const list *l, const op *o)
{
    for (size_t i = 0; o->kind == MS_KIND_MESSAGE && o->m[0].key.ptr != NULL && i < l->n; i++)
        if (record_is(l->items[i], MS_KIND_MESSAGE) &&
            ms_str_equal(test_location(l->items[i]), o->m[0].location) &&
            ms_str_equal(ms_get(l->items[i], MS_F_KEY).text, o->m[0].key))
            return ms_seq(l->items[i]);
    return 0;
}

/* What a change may return depends on what is left. */
static void step(life *f, ms_store *store, uint64_t *rng, size_t most)
{
    static op o;
    uint64_t seqs[OP_MOST], drops = f->drops;
    op_random(&o, rng, &f->l, store, f->given, most);
    uint64_t repeats = key_holder(&f->l, &o);
    ms_result code = op_do(&o, store, seqs);
    follow(f, store);
    bool gone = drops < f->drops && o.kind != MS_KIND_MESSAGE;
    if (code == MS_E_FULL && o.n > 1) return; /* more than a small ring takes */
    if (code == MS_E_NOT_FOUND && gone) return;
    assert_int_equal(code, MS_OK);
    if (repeats != 0) {
        assert_int_equal(seqs[0], repeats);
        return;
    }
    for (size_t i = 0; o.kind == MS_KIND_MESSAGE && i < o.n; i++)
        assert_int_equal(seqs[i], ++f->given);
    if (!list_take(&f->l, store, &o)) assert_true(gone && o.kind == MS_KIND_HIDE);
}

static void one_life(uint64_t *rng, size_t size, size_t steps)
{
    life f;
    ms_query q = query_of(no_str(), 0);
    ms_cursor it;
    uint64_t opened = 0;
    void *buffer = memory(size);
    ms_store *store = open_ring(buffer, size);
    size_t most = size / 4 - 200 < OP_TEXT ? size / 4 - 200 : OP_TEXT;
    memset(&f, 0, sizeof f);
    memset(&it, 0, sizeof it);
    for (size_t i = 0; i < steps; i++) {
        uint64_t drops = f.drops;
        step(&f, store, rng, most);
        if (f.drops > drops || test_one_in(rng, 20)) compare(&f, store);
        if (it.store != NULL) {
            const ms_msg *msg = ms_next(&it);
            if (f.drops > opened) assert_null(msg);
            if (msg != NULL) continue;
            assert_int_equal(ms_cursor_close(&it, NULL),
                             f.drops > opened ? MS_E_CONFLICT : MS_OK);
        }
        q.location = ms_str_of(places[test_below(rng, PLACES)]);
        q.reverse = test_one_in(rng, 2);
        opened = f.drops;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    }
    compare(&f, store);
    ms_cursor_close(&it, NULL);
    ms_close(store);
    list_empty(&f.l);
    free(buffer);
}

TEST(a_ring_is_as_a_list_that_drops)
{
    static const size_t sizes[] = {4096, 5000, 8192, 16384, 32768};
    uint64_t rng = test_seed();
    size_t lives = test_times(test_scale() < 100 ? 1000 : 2000);
    for (size_t i = 0; i < lives; i++)
        one_life(&rng, sizes[i % 5], 100 + test_below(&rng, 60) * sizes[i % 5] / 4096);
    test_tally("lives of a ring", lives);
}


/* ---- single rules ---- */

static uint64_t buffer[1 << 13];

static ms_result append_long(ms_store *store, const char *location, ms_type type,
                             size_t len, uint64_t *seq)
{
    static char text[1 << 16];
    memset(text, 'y', sizeof text);
    ms_envelope m = ms_message(type, ms_text_n(ms_str_n(text, len)));
    return ms_append(store, ms_str_of(location), &m, seq, NULL);
}

TEST(a_message_of_a_quarter_always_fits)
{
    uint64_t rng = test_seed();
    for (size_t i = 0; i < test_times(400); i++) {
        size_t size = 4096 + test_below(&rng, sizeof buffer - 4096);
        ms_store *store = open_ring(buffer, size);
        for (unsigned k = 0; k < 30; k++) {
            char name[200];
            size_t len = 1 + test_below(&rng, sizeof name - 1);
            memset(name, 'a' + (int)(k % 26), len);
            name[len - 1] = '\0';
            if (len == 1) continue;
            size_t text = test_one_in(&rng, 2) ? test_below(&rng, size / 4) : size / 4;
            ms_result code = append_long(store, name, MS_T_OBSERVATION, text, NULL);
            assert_true(code == MS_OK ||
                        (code == MS_E_TOO_LARGE && text + len + 48 > size / 4));
        }
        ms_stat stat;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_true(stat.messages > 0);
        ms_close(store);
    }
}

TEST(a_batch_that_never_fits_drops_nothing)
{
    ms_envelope many[64];
    ms_store *store = open_ring(buffer, 8192);
    ms_stat before, after;
    ms_str text = MS_STR("......................................................."
                         ".......................................................");
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(append_long(store, "x", MS_T_FINAL, 300, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &before, NULL), MS_OK);
    for (unsigned i = 0; i < 64; i++) many[i] = ms_message(MS_T_FINAL, ms_text_n(text));
    ms_append_opts opts = {.location = MS_STR("x")};
    assert_int_equal(ms_append_batch(store, many, 64, &opts, NULL), MS_E_FULL);
    assert_int_equal(ms_store_stat(store, &after, NULL), MS_OK);
    assert_memory_equal(&before, &after, sizeof before);
    ms_close(store);
}

/* A message may be made of the texts of one that is dropped or moved for it. */
TEST(a_message_made_of_another_moves_with_it)
{
    uint64_t rng = test_seed();
    for (size_t i = 0; i < test_times(300); i++) {
        ms_store *store = open_ring(buffer, 4096);
        ms_stat stat;
        uint64_t copied = 0, gone = 0;
        for (unsigned k = 0; k < 80; k++) {
            char text[90];
            size_t len = 1 + test_below(&rng, sizeof text - 1);
            memset(text, 'a' + (int)(k % 26), len);
            if (test_one_in(&rng, 4)) len = 0;
            ms_envelope m = ms_message(MS_T_FINAL, ms_text_n(ms_str_n(text, len)));
            m.agent_key = ms_str_n(text, 1);
            assert_int_equal(ms_append(store, MS_STR("x"), &m, NULL, NULL), MS_OK);
            const ms_msg *msg;
            uint64_t seq;
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            do seq = 1 + test_below(&rng, stat.last_seq);
            while (ms_get_by_seq(store, seq, NULL, &msg, NULL) != MS_OK);
            m = ms_envelope_of(msg);
            len = m.content.text.len;
            memcpy(text, m.content.text.ptr, len);
            uint64_t from = seq;
            ms_result code = ms_append(store, m.location, &m, &seq, NULL);
            if (code == MS_E_NOT_FOUND) {
                assert_int_equal(ms_get_by_seq(store, from, NULL, &msg, NULL), code);
                gone++;
                continue;
            }
            assert_int_equal(code, MS_OK);
            assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
            assert_true(ms_str_equal(ms_content(msg).text, ms_str_n(text, len)));
            if (len > 0) assert_int_equal(test_agent_key(msg).ptr[0], text[0]);
            copied++;
        }
        assert_true(copied > 60 && gone < 20);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
}

TEST(numbers_go_on_when_all_is_dropped)
{
    char many_dots[500];
    ms_store *store = open_ring(buffer, 4096);
    uint64_t seq;
    memset(many_dots, '.', sizeof many_dots);
    ms_mem_desc desc = ring_desc(buffer, 4096);
    for (uint64_t i = 1; i < 40; i++) { /* of messages as long as these one fits */
        char name[200];
        memset(name, 'a' + (int)(i % 26), sizeof name);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text("..."));
        m.agent_key = ms_str_n(name, sizeof name);
        m.content.text = ms_str_n(many_dots, 500);
        assert_int_equal(ms_append(store, m.agent_key, &m, &seq, NULL), MS_OK);
        assert_int_equal(seq, i);
        ms_stat stat;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        /* with pointers of 4 bytes two fit */
        assert_int_equal(stat.messages, sizeof(void *) > 4 || i == 1 ? 1 : 2);
        ms_close(store);
        assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_OK);
    }
    ms_close(store);
}

TEST(a_history_ends_when_messages_are_dropped)
{
    ms_store *store = open_ring(buffer, 8192);
    ms_memory memory;
    ms_cursor it;
    ms_stat stat;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(append_long(store, "x", i % 4 ? MS_T_FINAL : MS_T_USER_MESSAGE,
                                     50, NULL), MS_OK);
    ms_memory_init(&memory, store, MS_STR("x"), MS_STR("a"));
    memory.timeline = true;
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    do {
        assert_int_equal(append_long(store, "x", MS_T_USER_MESSAGE, 50, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    } while (stat.dropped == 0);
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_CONFLICT);
    assert_int_equal(ms_get_history(&memory, &it, NULL), MS_OK);
    assert_non_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_close(store);
}

/* Opens a cursor over the newest n messages: a query, a history, a history with a second
 * store, or a query from the other end. */
static void open_newest(ms_store *store, int how, size_t n, ms_memory *memory, ms_cursor *it)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = MS_STR("x");
    q.limit = n;
    q.reverse = how == 3;
    ms_memory_init(memory, store, MS_STR("x"), MS_STR("a"));
    memory->conversation_limit = n;
    memory->timeline = how == 2;
    if (how == 0 || how == 3) assert_int_equal(ms_query_open(store, &q, it, NULL), MS_OK);
    else assert_int_equal(ms_get_history(memory, it, NULL), MS_OK);
}

/* The newest few are found together, when the first one is asked for. */
TEST(the_newest_end_when_messages_are_dropped)
{
    static const size_t limits[] = {2, 5, 20, 21};
    for (int how = 0; how < 4; how++)
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            ms_store *store = open_ring(buffer, 8192);
            ms_memory memory;
            ms_cursor it;
            ms_stat stat;
            for (unsigned k = 0; k < 30; k++)
                assert_int_equal(append_long(store, "x", MS_T_USER_MESSAGE, 50, NULL), MS_OK);
            open_newest(store, how, limits[i], &memory, &it);
            assert_non_null(ms_next(&it));
            do {
                assert_int_equal(append_long(store, "x", MS_T_FINAL, 50, NULL), MS_OK);
                assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            } while (stat.dropped == 0);
            assert_null(ms_next(&it));
            assert_int_equal(ms_cursor_close(&it, NULL), MS_E_CONFLICT);
            ms_close(store);
        }
}

/* Appends until the ring drops messages. */
static void append_until_it_drops(ms_store *store)
{
    ms_stat before, stat;
    assert_int_equal(ms_store_stat(store, &before, NULL), MS_OK);
    do {
        assert_int_equal(append_long(store, "x", MS_T_FINAL, 50, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    } while (stat.dropped == before.dropped);
}

static size_t shown_as(ms_store *store, const char *text)
{
    ms_cursor it;
    ms_query all = query_of(no_str(), 0);
    size_t n = 0;
    EACH (msg, store, &all, &it) n += ms_str_equal(ms_content(msg).text, ms_str_of(text));
    return n;
}

/* Also when its own amendment drops messages and moves it. */
TEST(a_redaction_erases_its_message_alone)
{
    ms_store *store = open_ring(buffer, 8192);
    ms_stat stat;
    uint64_t seq, dropped = 0, rng = test_seed();
    size_t dropping = 0;
    for (size_t i = 0; i < 2000; i++) {
        bool secret = test_one_in(&rng, 3);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text(secret ? "a secret" : "a word"));
        char key[12]; /* its entry is made after the record */
        snprintf(key, sizeof key, "%u", (unsigned)i);
        m.key = ms_str_of(key);
        assert_int_equal(ms_append(store, MS_STR("x"), &m, &seq, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        dropped = stat.dropped;
        if (!secret) continue;
        size_t words = shown_as(store, "a word");
        assert_int_equal(ms_redact(store, seq, NULL), MS_OK);
        assert_null(memmem(buffer, 8192, "a secret", 8));
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        if (stat.dropped > dropped) dropping++;
        else assert_int_equal(shown_as(store, "a word"), words);
        assert_int_equal(shown_as(store, "a word") + shown_as(store, "[redacted]"),
                         stat.messages);
    }
    assert_true(dropping > 5);
    ms_close(store);
}

TEST(a_search_ends_when_messages_are_dropped)
{
    ms_store *store = open_ring(buffer, 8192);
    ms_find_query q = {.text = MS_STR("needle"), .every_match = true};
    ms_envelope m = ms_message(MS_T_FINAL, ms_text("needle needle needle"));
    ms_finder finder;
    ms_found found;
    ms_stat stat;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ms_append(store, MS_STR("x"), &m, NULL, NULL), MS_OK);
    assert_int_equal(ms_find_open(store, &q, &finder, NULL), MS_OK);
    assert_true(ms_find_next(&finder, &found));
    assert_true(ms_find_next(&finder, &found));
    assert_int_equal(found.at, 7);
    do {
        assert_int_equal(ms_append(store, MS_STR("x"), &m, NULL, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    } while (stat.dropped == 0);
    assert_false(ms_find_next(&finder, &found));
    assert_int_equal(ms_find_close(&finder, NULL), MS_E_CONFLICT);
    ms_close(store);
}

/* Parts move when messages are dropped: for the ring, and for a union that has it. */
TEST(a_follower_goes_on_when_messages_are_dropped)
{
    for (unsigned joins = 0; joins < 2; joins++) {
        ms_store *store = open_ring(buffer, 8192), *joined;
        ms_union_desc desc = {.stores = &store, .n_stores = 1};
        ms_envelope m = ms_assistant_message(ms_text("begin "));
        const ms_stream_opts opts = {.every_part = true};
        ms_stream stream;
        ms_stream_text text = {.next = 0}, all;
        ms_arena arena;
        ms_stat stat;
        uint64_t n = 0;
        test_arena_init(&arena, NULL);
        assert_int_equal(ms_union_open(&joined, &desc, NULL), MS_OK);
        append_until_it_drops(store);
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        uint64_t dropped = stat.dropped;
        assert_int_equal(ms_stream_begin(&stream, store, MS_STR("y"), &m, &opts, NULL),
                         MS_OK);
        ms_store *read = joins ? joined : store;
        for (unsigned i = 0, after = 0; after < 4; i++) {
            if (i % 3 == 2)
                assert_int_equal(append_long(store, "x", MS_T_FINAL, 9, NULL), MS_OK);
            else assert_int_equal(ms_stream_feed(&stream, MS_STR("part"), NULL), MS_OK);
            assert_int_equal(ms_stream_follow(read, stream.seq, &arena, &text, NULL),
                             MS_OK);
            assert_int_equal(ms_stream_read(read, stream.seq, n, &arena, &all, NULL),
                             MS_OK);
            assert_true(ms_str_equal(text.text, all.text));
            assert_int_equal(text.next, all.next);
            n = all.next;
            assert_int_equal(n, 6 + 4 * (i + 1 - (i + 1) / 3));
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            after += stat.dropped > dropped;
        }
        ms_arena_deinit(&arena);
        ms_close(joined);
        ms_close(store);
    }
}

/* A union that reads all when it is opened has what the ring had then. */
TEST(a_union_keeps_its_messages_when_a_ring_drops_them)
{
    for (unsigned by_time = 0; by_time < 2; by_time++) {
        ms_store *store = open_ring(buffer, 8192), *joined;
        ms_union_desc desc = {.stores = &store, .n_stores = 1};
        ms_query q = query_of(MS_STR("x"), MS_VIEW_TIMELINE);
        ms_cursor it;
        ms_stat stat;
        q.by_time = by_time == 1;
        q.limit = 15;
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(append_long(store, "x", MS_T_FINAL, i + 1, NULL), MS_OK);
        assert_int_equal(ms_union_open(&joined, &desc, NULL), MS_OK);
        assert_int_equal(ms_query_open(joined, &q, &it, NULL), MS_OK);
        append_until_it_drops(store);
        for (uint64_t seq = 6; seq <= 20; seq++) {
            const ms_msg *msg = ms_next(&it);
            assert_non_null(msg);
            assert_int_equal(ms_seq(msg), seq);
            assert_int_equal(ms_content(msg).text.len, seq);
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        assert_int_equal(ms_store_stat(joined, &stat, NULL), MS_OK);
        assert_true(stat.dropped > 0);
        ms_close(joined);
        ms_close(store);
    }
}

/* Not only while the ring is empty. */
TEST(a_batch_fits_always_or_never)
{
    static ms_envelope m[64];
    size_t fitting = 0, tried = 0, step = test_scale() < 30 ? 8 : test_scale() < 100 ? 3 : 1;
    for (size_t size = 4096; size <= 16384; size += 800)
        for (size_t n = 2; n <= 64; n += step) {
            ms_store *store = open_ring(buffer, size);
            ms_append_opts opts = {.location = MS_STR("x")};
            for (size_t i = 0; i < n; i++) {
                m[i] = ms_message(MS_T_FINAL, ms_text("tiny"));
                m[i].agent_key = ms_str_of(n % 3 ? NULL : i % 2 ? "a" : "b");
            }
            ms_result first = ms_append_batch(store, m, n, &opts, NULL);
            assert_true(first == MS_OK || first == MS_E_FULL);
            for (unsigned k = 0; k < 30; k++) {
                assert_int_equal(append_long(store, "y", MS_T_FINAL, 200, NULL), MS_OK);
                assert_int_equal(ms_append_batch(store, m, n, &opts, NULL), first);
            }
            fitting += first == MS_OK;
            tried++;
            ms_close(store);
        }
    assert_in_range(fitting, tried / 4, tried - 1);
}

/* The bound by which a batch is refused is one, and not far from what it takes. */
TEST(a_batch_fits_a_buffer_of_its_bound)
{
    static ms_envelope m[600];
    static char names[600][8];
    static uint64_t room[1 << 16];
    for (size_t n = 2; n <= 600; n += 1 + n / 40)
        for (unsigned how = 0; how < 8; how++) {
            ms__append_run run;
            ms_append_opts opts = {.expect = false};
            for (size_t i = 0; i < n; i++) {
                snprintf(names[i], sizeof names[i], "%u", (unsigned)i);
                m[i] = ms_message(MS_T_FINAL, ms_text("hello"));
                m[i].location = ms_str_of(how & 1 && i % 2 ? "x" : "y");
                m[i].agent_key = ms_str_of(how & 2 ? "agent" : NULL);
                m[i].key = ms_str_of(how & 4 ? names[i] : NULL);
            }
            memset(&run, 0, sizeof run);
            run.messages = m;
            run.n = n;
            uint64_t need = (ms__ring_need(&run) + 7) / 8 * 8;
            size_t size = need < 4096 ? 4096 : (size_t)need;
            assert_true(need < 4000 + 400 * n && size < sizeof room);
            ms_store *store = open_ring(room, size);
            assert_int_equal(append_long(store, "x", MS_T_FINAL, 200, NULL), MS_OK);
            assert_int_equal(ms_append_batch(store, m, n, &opts, NULL), MS_OK);
            ms_close(store);
        }
}

TEST(a_copy_leaves_out_notes_of_messages_that_were_dropped)
{
    ms_store *source, *store = open_ring(buffer, 8192);
    ms_copy_report report;
    ms_arena arena;
    uint64_t seq;
    assert_int_equal(ms_mem_open(&source, NULL, NULL), MS_OK);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(append_long(source, "x", MS_T_FINAL, 60, &seq), MS_OK);
        if (i % 50 == 49)
            assert_int_equal(ms_note(source, seq, MS_STR("mark"), ms_text("1"), NULL),
                             MS_OK);
    }
    assert_int_equal(ms_location_set(source, MS_STR("x"), MS_STR("{\"t\":1}"), NULL),
                     MS_OK);
    assert_int_equal(ms_copy(store, source, NULL, NULL, &report, NULL), MS_OK);
    assert_int_equal(report.copied, 200);
    assert_in_range(report.notes, 1, 3);
    test_arena_init(&arena, NULL);
    ms_str facts;
    assert_int_equal(ms_location_get(store, MS_STR("x"), &arena, &facts, NULL), MS_OK);
    assert_true(ms_str_equal(facts, MS_STR("{\"t\":1}")));
    ms_arena_deinit(&arena);
    ms_close(store);
    ms_close(source);
}

/* How many turns a request has; *missing: what a compaction keeps and is not there. */
static unsigned turns_asked(ms_store *store, uint64_t *compaction, uint64_t *missing)
{
    ms_arena arena;
    ms_project_report report = {0};
    ms_request_desc ask = {.profile = ms_profile_find(MS_STR("openai")), .store = store,
                           .location = MS_STR("x"), .opts.model = MS_STR("m")};
    unsigned n = 0;
    test_arena_init(&arena, NULL);
    ms_buf out = {&arena, NULL, 0, 0};
    ms_result code = ms_request(&ask, ms_buf_write, &out, &report, NULL);
    ms_str body = ms_buf_text(&out);
    for (unsigned i = 0; i < 16; i++) {
        char text[24];
        snprintf(text, sizeof text, "question-%u.", i);
        n += code == MS_OK && has_text(body, text);
    }
    if (code != MS_OK) assert_int_equal(code, MS_E_NOT_FOUND); /* all are dropped */
    if (report.compaction_seq != 0) assert_true(has_text(body, "SUMMARY"));
    *compaction = report.compaction_seq;
    *missing = report.compaction_missing;
    ms_arena_deinit(&arena);
    return n;
}

/* Another location pushes a compacted conversation out of the ring, turn by turn. */
TEST(a_compaction_counts_what_a_ring_dropped_of_it)
{
    ms_store *store = open_ring(buffer, 16384);
    ms_request_desc ask = {.profile = ms_profile_find(MS_STR("openai")), .store = store,
                           .location = MS_STR("x"), .opts.model = MS_STR("m")};
    ms_compaction c = {.summary = MS_STR("SUMMARY")};
    uint64_t compaction, seq, missing, seen = 0;
    for (unsigned i = 0; i < 16; i++) {
        char text[400];
        memset(text, 'w', sizeof text);
        text[snprintf(text, 30, "question-%u.", i)] = ' ';
        ms_envelope m = ms_user_message(ms_text_n(ms_str_n(text, sizeof text)));
        assert_int_equal(ms_append(store, MS_STR("x"), &m, &seq, NULL), MS_OK);
        if (i == 3) c.upto = seq;
    }
    assert_int_equal(ms_compact(&ask, &c, &seq, NULL), MS_OK);
    assert_int_equal(turns_asked(store, &compaction, &missing), 12);
    assert_int_equal(missing, 0);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(append_long(store, "y", MS_T_FINAL, 60, NULL), MS_OK);
        unsigned n = turns_asked(store, &compaction, &missing);
        if (compaction == 0) break;
        assert_int_equal(compaction, seq);
        assert_int_equal(n + missing, 12);
        if (missing > seen) seen = missing;
    }
    assert_int_equal(compaction, 0);
    assert_true(seen > 0);
    ms_close(store);
}

TEST(a_ring_needs_a_buffer_of_twice_the_least_size)
{
    ms_mem_desc desc = ring_desc(NULL, 0);
    ms_store *store;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer = buffer;
    desc.buffer_size = 2 * MS_MEM_MIN - 1;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer_size++;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    ms_close(store);
}

TEST(a_damaged_record_does_not_stop_a_ring)
{
    uint64_t rng = test_seed();
    for (size_t i = 0; i < test_times(2000); i++) {
        ms_store *store = open_ring(buffer, 8192);
        while (ms_mem_image(store).len < 3000)
            assert_int_equal(append_long(store, "x", test_one_in(&rng, 4) ? MS_T_USER_MESSAGE
                                                                          : MS_T_FINAL,
                                         test_below(&rng, 90), NULL), MS_OK);
        for (uint64_t k = test_below(&rng, 8); k > 0; k--)
            ((unsigned char *)buffer)[64 + test_below(&rng, ms_mem_image(store).len - 64)] ^=
                (unsigned char)(1 + test_below(&rng, 255));
        for (unsigned k = 0; k < 200; k++)
            assert_int_equal(append_long(store, "x", MS_T_FINAL, 60, NULL), MS_OK);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
