/* A ring: an arena store that drops its oldest messages instead of being full. A plain list
 * of records stands beside it, which drops by the words of [api-mem]. The store says how
 * often it dropped; what is left, record by record, the list knows alone.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_RING
#include "stores.h"

#define LOCATIONS 4
#define AGENTS 3
#define TEXT_MAX 1500

typedef struct record {
    ms_kind kind;             /* LOST stands for the record that keeps numbers */
    ms_type type;
    uint64_t seq, last;       /* of its message; a HIDE: of the first, the last */
    uint32_t units;           /* size / 8 */
    unsigned location;
    char agent[4], turn[8], key[8];
    char *text;
} record;

typedef struct list {
    record *items;
    size_t n, cap;
    uint64_t given, dropped, drops;
} list;

static const char *const places[LOCATIONS] = {"cave", "tower", "a long name of a place",
                                              "x"};

#define KIND_GAP ((ms_kind)9)

static void list_put(list *l, record r, const char *text)
{
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 16;
        l->items = (record *)realloc(l->items, l->cap * sizeof *l->items);
        if (l->items == NULL) abort();
    }
    r.text = strdup(text);
    l->items[l->n++] = r;
}

static void list_empty(list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->items[i].text);
    free(l->items);
    memset(l, 0, sizeof *l);
}


/* ---- the rule ---- */

static bool begins_turn(const record *r, const record *before)
{
    if (r->turn[0] != '\0' || before->turn[0] != '\0')
        return strcmp(r->turn, before->turn) != 0;
    return r->type == MS_T_USER_MESSAGE;
}

/* The first message of a location that stays; SIZE_MAX: none. */
static size_t first_kept(const list *l, unsigned location, uint32_t x, uint32_t far)
{
    uint32_t unit = 8;
    size_t from = SIZE_MAX;
    const record *before = NULL;
    for (size_t i = 0; i < l->n; unit += l->items[i++].units) {
        const record *r = &l->items[i];
        if (r->kind != MS_KIND_MESSAGE || r->location != location) continue;
        if (unit >= x) {
            if (from == SIZE_MAX) from = i;
            if (before == NULL || unit >= far) return from;
            if (begins_turn(r, before)) return i;
        }
        before = r;
    }
    return from;
}

static void list_drop(list *l)
{
    size_t kept[LOCATIONS], n = 0;
    uint32_t units = 0, unit = 8;
    uint64_t facts = 0, last = 0;
    for (size_t i = 0; i < l->n; i++) {
        units += l->items[i].units;
        if (l->items[i].kind == MS_KIND_LOCATION) facts += 8 * l->items[i].units;
    }
    uint32_t x = 8 + units / 3 + 1;
    for (unsigned i = 0; i < LOCATIONS; i++) kept[i] = first_kept(l, i, x, x + units / 2);
    uint64_t first[LOCATIONS];
    for (unsigned i = 0; i < LOCATIONS; i++)
        first[i] = kept[i] == SIZE_MAX ? UINT64_MAX : l->items[kept[i]].seq;
    for (size_t i = 0; i < l->n; i++) {
        record r = l->items[i];
        bool stays;
        if (r.kind == KIND_GAP) {
            stays = false;
        } else if (r.kind == MS_KIND_LOCATION) {
            stays = facts <= units / 2 && (unit >= x || kept[r.location] != SIZE_MAX);
            if (!stays) facts -= 8 * r.units;
        } else {
            stays = r.last >= first[r.location];
        }
        unit += r.units;
        if (r.kind == MS_KIND_MESSAGE) {
            if (stays) last = r.seq;
            else l->dropped++;
        }
        if (stays) l->items[n++] = r;
        else free(r.text);
    }
    l->n = n;
    if (last < l->given) {
        record gap;
        memset(&gap, 0, sizeof gap);
        gap.kind = KIND_GAP;
        gap.units = 5;
        list_put(l, gap, "");
    }
    l->drops++;
}

/* Drops as often as the store did. */
static void follow(list *l, ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    while (l->drops < stat.as_of >> 32) list_drop(l);
    assert_int_equal(l->dropped, stat.dropped);
}


/* ---- what a store has ---- */

static bool is_hidden(const list *l, const record *m)
{
    for (size_t i = 0; i < l->n; i++) {
        const record *r = &l->items[i];
        if (r->kind == MS_KIND_HIDE && r->location == m->location && r->seq <= m->seq &&
            m->seq <= r->last && r > m)
            return true;
    }
    return false;
}

static const char *text_of(const list *l, const record *m)
{
    const char *text = m->text;
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].kind == MS_KIND_AMEND && l->items[i].seq == m->seq)
            text = l->items[i].text;
    return text;
}

static void compare_records(const list *l, ms_store *store)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    size_t i = 0;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        while (i < l->n && l->items[i].kind == KIND_GAP) i++;
        assert_true(i < l->n);
        const record *r = &l->items[i++];
        assert_int_equal(ms_kind_of(msg), r->kind);
        assert_int_equal(ms_seq(msg), r->kind == MS_KIND_LOCATION ? 0 : r->seq);
        assert_int_equal(ms_size(msg), 8 * r->units);
        assert_true(ms_str_equal(test_location(msg), ms_str_of(places[r->location])));
        if (r->kind == MS_KIND_HIDE) continue;
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(r->text)));
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    while (i < l->n && l->items[i].kind == KIND_GAP) i++;
    assert_int_equal(i, l->n);
}

static void compare_view(const list *l, ms_store *store, unsigned location,
                         unsigned view, const char *agent)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    memset(&q, 0, sizeof q);
    q.location = ms_str_of(places[location]);
    q.views = view;
    q.agent_key = ms_str_of(agent);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    for (size_t i = 0; i < l->n; i++) {
        const record *r = &l->items[i];
        if (r->kind != MS_KIND_MESSAGE || r->location != location) continue;
        bool trace = r->type == MS_T_OBSERVATION || r->type == MS_T_FINAL;
        if (view == MS_VIEW_CONVERSATION && r->type != MS_T_USER_MESSAGE) continue;
        if (view == MS_VIEW_AGENT && (!trace || strcmp(r->agent, agent) != 0)) continue;
        if (is_hidden(l, r)) continue;
        msg = ms_next(&it);
        assert_non_null(msg);
        assert_int_equal(ms_seq(msg), r->seq);
        assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text_of(l, r))));
    }
    assert_null(ms_next(&it));
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
}

static void compare_facts(const list *l, ms_store *store, unsigned location)
{
    static char room[8192];
    ms_arena arena;
    ms_str facts;
    const char *want = "{}";
    test_arena_init_fixed(&arena, room, sizeof room);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].kind == MS_KIND_LOCATION && l->items[i].location == location)
            want = l->items[i].text;
    assert_int_equal(ms_location_get(store, ms_str_of(places[location]), &arena, &facts,
                                     NULL), MS_OK);
    assert_true(ms_str_equal(facts, ms_str_of(want)));
}

static void compare(const list *l, ms_store *store)
{
    static const char *const agents[] = {"a", "b"};
    ms_stat stat;
    uint64_t messages = 0, hidden = 0, changes = 0;
    compare_records(l, store);
    for (unsigned i = 0; i < LOCATIONS; i++) {
        compare_view(l, store, i, MS_VIEW_TIMELINE, "a");
        compare_view(l, store, i, MS_VIEW_CONVERSATION, "a");
        for (unsigned k = 0; k < 2; k++)
            compare_view(l, store, i, MS_VIEW_AGENT, agents[k]);
        compare_facts(l, store, i);
    }
    for (size_t i = 0; i < l->n; i++) {
        const record *r = &l->items[i];
        if (r->kind == KIND_GAP) continue;
        if (r->kind != MS_KIND_MESSAGE) changes++;
        else if (is_hidden(l, r)) hidden++;
        else messages++;
    }
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    assert_int_equal(stat.messages, messages);
    assert_int_equal(stat.hidden, hidden);
    assert_int_equal(stat.changes, changes);
    assert_int_equal(stat.given_seq, l->given);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
}


/* ---- random lives ---- */

static ms_store *open_ring(void *buffer, size_t size)
{
    ms_mem_desc desc;
    ms_store *store;
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = size;
    desc.keep_unset_times = true;
    desc.drop_oldest = true;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    return store;
}

static uint32_t newest_units(ms_store *store, unsigned raw)
{
    ms_query q;
    ms_cursor it;
    memset(&q, 0, sizeof q);
    q.raw = raw;
    q.reverse = true;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    const ms_msg *msg = ms_next(&it);
    uint32_t units = msg != NULL ? (uint32_t)(ms_size(msg) / 8) : 0;
    ms_cursor_close(&it, NULL);
    return units;
}

static record *find_key(const list *l, const record *m)
{
    for (size_t i = 0; m->key[0] != '\0' && i < l->n; i++)
        if (l->items[i].kind == MS_KIND_MESSAGE && l->items[i].location == m->location &&
            strcmp(l->items[i].key, m->key) == 0)
            return &l->items[i];
    return NULL;
}

/* A message; one with a key is always the same. */
static ms_envelope make(uint64_t *rng, size_t most, record *r, char text[TEXT_MAX + 1])
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_OBSERVATION, MS_T_FINAL};
    memset(r, 0, sizeof *r);
    r->kind = MS_KIND_MESSAGE;
    r->location = (unsigned)test_below(rng, LOCATIONS);
    uint64_t number = test_below(rng, 30), same = number, *from = rng;
    if (test_one_in(rng, 5)) {
        snprintf(r->key, sizeof r->key, "k%u", (unsigned)number);
        from = &same;
    }
    r->type = types[test_below(from, 8) == 0 ? 0 : 1 + test_below(from, 2)];
    if (test_below(from, 3) > 0)
        snprintf(r->agent, sizeof r->agent, "%c", (char)('a' + test_below(from, 2)));
    if (r->location == 1 && test_below(from, 4) > 0)
        snprintf(r->turn, sizeof r->turn, "t%u",
                 from == rng ? (unsigned)(*rng >> 40) / 3 % 4 : (unsigned)number);
    size_t len = test_one_in(from, 20) ? test_below(from, most) : test_below(from, 60);
    for (size_t i = 0; i < len; i++) text[i] = (char)('a' + test_below(from, 26));
    text[len] = '\0';
    ms_envelope m = ms_message(r->type, ms_text(text));
    if (r->agent[0] != '\0') m.agent_key = ms_str_of(r->agent);
    if (r->turn[0] != '\0') m.turn_id = ms_str_of(r->turn);
    if (r->key[0] != '\0') m.key = ms_str_of(r->key);
    return m;
}

static void append_one(list *l, ms_store *store, uint64_t *rng, size_t most)
{
    record r;
    char text[TEXT_MAX + 1];
    uint64_t seq;
    ms_error err;
    ms_envelope m = make(rng, most, &r, text);
    const record *known = find_key(l, &r);
    uint64_t repeats = known != NULL ? known->seq : 0;
    if (ms_append(store, ms_str_of(places[r.location]), &m, &seq, &err) != MS_OK)
        fail_msg("append: %s", err.message);
    follow(l, store);
    if (known != NULL) {
        assert_int_equal(seq, repeats);
        return;
    }
    assert_int_equal(seq, ++l->given);
    r.seq = r.last = seq;
    r.units = newest_units(store, MS_RAW_MESSAGES);
    list_put(l, r, text);
}

static void append_batch(list *l, ms_store *store, uint64_t *rng)
{
    enum { MOST = 12 };
    record r[MOST];
    char text[MOST][TEXT_MAX + 1];
    ms_envelope m[MOST];
    uint64_t seqs[MOST];
    ms_append_opts opts;
    size_t n = 2 + test_below(rng, MOST - 1);
    memset(&opts, 0, sizeof opts);
    opts.seqs = seqs;
    for (size_t i = 0; i < n; i++) {
        m[i] = make(rng, 10, &r[i], text[i]);
        m[i].key = ms_str_n(NULL, 0);
        r[i].key[0] = '\0';
        m[i].location = ms_str_of(places[r[i].location]);
    }
    ms_result code = ms_append_batch(store, m, n, &opts, NULL);
    follow(l, store);
    if (code == MS_E_FULL) return; /* more than a small ring takes */
    assert_int_equal(code, MS_OK);
    for (size_t i = 0; i < n; i++) {
        const ms_msg *msg;
        r[i].seq = r[i].last = ++l->given;
        assert_int_equal(seqs[i], l->given);
        assert_int_equal(ms_get_by_seq(store, seqs[i], NULL, &msg, NULL), MS_OK);
        r[i].units = (uint32_t)(ms_size(msg) / 8);
        list_put(l, r[i], text[i]);
    }
}

/* Tries a change of a message; what it may return depends on what is left. */
static void change_one(list *l, ms_store *store, uint64_t *rng)
{
    record r;
    char text[64];
    ms_result code;
    if (l->n == 0) return;
    const record *m = &l->items[test_below(rng, l->n)];
    if (m->kind != MS_KIND_MESSAGE || is_hidden(l, m)) return;
    memset(&r, 0, sizeof r);
    r.location = m->location;
    r.seq = r.last = m->seq;
    snprintf(text, sizeof text, "%u", (unsigned)test_below(rng, 1000000));
    switch (test_below(rng, 4)) {
    case 0: {
        ms_envelope e = ms_message(m->type, ms_text(text));
        if (m->turn[0] != '\0') e.turn_id = ms_str_of(m->turn);
        r.kind = MS_KIND_AMEND;
        code = ms_amend(store, m->seq, &e, NULL);
        break;
    }
    case 1:
        r.kind = MS_KIND_NOTE;
        code = ms_note(store, m->seq, MS_STR("mark"), ms_text(text), NULL);
        break;
    case 2:
        r.kind = MS_KIND_HIDE;
        code = ms_hide(store, m->seq, NULL);
        break;
    default:
        r.kind = MS_KIND_HIDE;
        r.last += test_below(rng, 6);
        if (r.last > l->given) r.last = l->given;
        code = ms_hide_range(store, ms_str_of(places[r.location]), r.seq, r.last, NULL,
                             NULL);
    }
    uint64_t drops = l->drops;
    follow(l, store);
    if (code == MS_E_NOT_FOUND) {
        assert_true(drops < l->drops);
        return;
    }
    assert_int_equal(code, MS_OK);
    if (drops < l->drops && r.kind == MS_KIND_HIDE) { /* what it would hide may be gone */
        ms_stat stat;
        uint64_t changes = 0;
        for (size_t i = 0; i < l->n; i++)
            changes += l->items[i].kind != MS_KIND_MESSAGE && l->items[i].kind != KIND_GAP;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        if (stat.changes == changes) return;
    }
    r.units = newest_units(store, MS_RAW_ALL & ~(unsigned)MS_RAW_MESSAGES);
    list_put(l, r, text);
}

static void set_facts(list *l, ms_store *store, uint64_t *rng)
{
    record r;
    char text[400];
    memset(&r, 0, sizeof r);
    r.kind = MS_KIND_LOCATION;
    r.location = (unsigned)test_below(rng, LOCATIONS);
    snprintf(text, sizeof text, "{\"t\":\"%0*u\"}", (int)test_below(rng, 60) + 1,
             (unsigned)test_below(rng, 1000000));
    ms_result code =
        ms_location_set(store, ms_str_of(places[r.location]), ms_str_of(text), NULL);
    follow(l, store);
    assert_int_equal(code, MS_OK);
    r.units = newest_units(store, MS_RAW_ALL & ~(unsigned)MS_RAW_MESSAGES);
    list_put(l, r, text);
}

/* The image is one at every moment that nothing is appended. */
static void compare_image(const list *l, ms_store *store, size_t size)
{
    ms_mem_desc desc;
    ms_store *other;
    ms_str image = ms_mem_image(store);
    char *copy = (char *)malloc(size);
    if (copy == NULL) abort();
    memcpy(copy, image.ptr, image.len);
    memset(copy + image.len, 0xA5, size - image.len);
    memset(&desc, 0, sizeof desc);
    desc.buffer = copy;
    desc.buffer_size = size;
    desc.drop_oldest = true;
    assert_int_equal(ms_mem_attach(&other, &desc, NULL, NULL), MS_OK);
    compare(l, other);
    free(copy);
}

static void one_life(uint64_t *rng, size_t size, size_t steps)
{
    list l;
    ms_query q;
    ms_cursor it;
    uint64_t opened = 0;
    char *buffer = (char *)malloc(size);
    if (buffer == NULL) abort();
    ms_store *store = open_ring(buffer, size);
    size_t most = size / 4 - 200 < TEXT_MAX ? size / 4 - 200 : TEXT_MAX;
    memset(&l, 0, sizeof l);
    memset(&q, 0, sizeof q);
    memset(&it, 0, sizeof it);
    for (size_t i = 0; i < steps; i++) {
        uint64_t what = test_below(rng, 20), drops = l.drops;
        if (what < 13) append_one(&l, store, rng, most);
        else if (what < 15) append_batch(&l, store, rng);
        else if (what < 19) change_one(&l, store, rng);
        else set_facts(&l, store, rng);
        if (l.drops > drops || test_one_in(rng, 20)) compare(&l, store);
        if (test_one_in(rng, 60)) compare_image(&l, store, size);
        if (it.store != NULL) {
            const ms_msg *msg = ms_next(&it);
            if (l.drops > opened) assert_null(msg);
            if (msg != NULL) continue;
            assert_int_equal(ms_cursor_close(&it, NULL),
                             l.drops > opened ? MS_E_CONFLICT : MS_OK);
        }
        q.location = ms_str_of(places[test_below(rng, LOCATIONS)]);
        q.reverse = test_one_in(rng, 2);
        opened = l.drops;
        assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    }
    compare(&l, store);
    ms_cursor_close(&it, NULL);
    ms_close(store);
    list_empty(&l);
    free(buffer);
}

static void a_ring_is_as_a_list_that_drops(void **state)
{
    uint64_t rng = test_seed(), drops = 0;
    size_t lives = test_times(2000);
    (void)state;
    for (size_t i = 0; i < lives; i++) {
        static const size_t sizes[] = {4096, 5000, 8192, 16384, 32768};
        one_life(&rng, sizes[i % 5], 100 + test_below(&rng, 60) * sizes[i % 5] / 4096);
        drops++;
    }
    test_tally("lives of a ring", drops);
}


/* ---- single rules ---- */

static ms_result append_long(ms_store *store, const char *location, ms_type type,
                             size_t len, uint64_t *seq)
{
    static char text[1 << 16];
    memset(text, 'y', sizeof text);
    ms_envelope m = ms_message(type, ms_text_n(ms_str_n(text, len)));
    return ms_append(store, ms_str_of(location), &m, seq, NULL);
}

static void a_message_of_a_quarter_always_fits(void **state)
{
    static uint64_t buffer[1 << 13];
    uint64_t rng = test_seed();
    (void)state;
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
                        (code == MS_E_TOO_LARGE && text + len + 40 > size / 4));
        }
        ms_stat stat;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_true(stat.messages > 0);
        ms_close(store);
    }
}

static void a_batch_that_never_fits_drops_nothing(void **state)
{
    static uint64_t buffer[1024];
    ms_envelope many[64];
    ms_store *store = open_ring(buffer, sizeof buffer);
    ms_stat before, after;
    ms_str text = MS_STR("......................................................."
                         ".......................................................");
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(append_long(store, "x", MS_T_FINAL, 300, NULL), MS_OK);
    assert_int_equal(ms_store_stat(store, &before, NULL), MS_OK);
    for (unsigned i = 0; i < 64; i++) many[i] = ms_message(MS_T_FINAL, ms_text_n(text));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("x");
    assert_int_equal(ms_append_batch(store, many, 64, &opts, NULL), MS_E_FULL);
    assert_int_equal(ms_store_stat(store, &after, NULL), MS_OK);
    assert_memory_equal(&before, &after, sizeof before);
    ms_close(store);
}

/* A message may be made of the texts of one that is dropped or moved for it. */
static void a_message_made_of_another_moves_with_it(void **state)
{
    static uint64_t buffer[512];
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(300); i++) {
        ms_store *store = open_ring(buffer, sizeof buffer);
        ms_stat stat;
        uint64_t copied = 0, gone = 0;
        for (unsigned k = 0; k < 80; k++) {
            char text[90];
            size_t len = 1 + test_below(&rng, sizeof text - 1);
            memset(text, 'a' + (int)(k % 26), len);
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
            ms_result code = ms_append(store, m.location, &m, &seq, NULL);
            if (code == MS_E_NOT_FOUND) gone++;
            if (code == MS_E_NOT_FOUND) continue;
            assert_int_equal(code, MS_OK);
            assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL), MS_OK);
            assert_true(ms_str_equal(ms_content(msg).text, ms_str_n(text, len)));
            assert_int_equal(test_agent_key(msg).ptr[0], text[0]);
            copied++;
        }
        assert_true(copied > 60 && gone < 20);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        ms_close(store);
    }
}

static void numbers_go_on_when_all_is_dropped(void **state)
{
    static uint64_t buffer[512];
    char many_dots[500];
    ms_store *store = open_ring(buffer, sizeof buffer);
    uint64_t seq;
    memset(many_dots, '.', sizeof many_dots);
    ms_mem_desc desc;
    (void)state;
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
        assert_int_equal(stat.messages, 1);
        ms_close(store);
        memset(&desc, 0, sizeof desc);
        desc.buffer = buffer;
        desc.buffer_size = sizeof buffer;
        desc.drop_oldest = true;
        assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_OK);
    }
    ms_close(store);
}

static void a_history_ends_when_messages_are_dropped(void **state)
{
    static uint64_t buffer[1024];
    ms_store *store = open_ring(buffer, sizeof buffer);
    ms_memory memory;
    ms_cursor it;
    ms_stat stat;
    (void)state;
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

static void a_ring_needs_a_buffer_of_twice_the_least_size(void **state)
{
    static uint64_t buffer[512];
    ms_mem_desc desc;
    ms_store *store;
    (void)state;
    memset(&desc, 0, sizeof desc);
    desc.drop_oldest = true;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer = buffer;
    desc.buffer_size = 2 * MS_MEM_MIN - 1;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer_size++;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_OK);
    ms_close(store);
}

static void a_damaged_record_does_not_stop_a_ring(void **state)
{
    static uint64_t buffer[1024];
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(2000); i++) {
        ms_store *store = open_ring(buffer, sizeof buffer);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_as_a_list_that_drops),
        cmocka_unit_test(a_message_of_a_quarter_always_fits),
        cmocka_unit_test(a_batch_that_never_fits_drops_nothing),
        cmocka_unit_test(a_message_made_of_another_moves_with_it),
        cmocka_unit_test(numbers_go_on_when_all_is_dropped),
        cmocka_unit_test(a_history_ends_when_messages_are_dropped),
        cmocka_unit_test(a_ring_needs_a_buffer_of_twice_the_least_size),
        cmocka_unit_test(a_damaged_record_does_not_stop_a_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
