/* A store in raw flash, over a simulated NOR flash: bits go from 1 to 0 alone, each unit is
 * programmed once between two erasures, anything else fails the test. Power fails at any
 * program or erasure, of which a random part of the bits is done then. After each loss the
 * flash is opened again and compared with what the store had in RAM.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FLASH
#include "stores.h"

/* ---- the flash ---- */

typedef struct nor {
    unsigned char *bytes;
    bool *used;               /* units that were programmed */
    uint64_t *erased;         /* how often each sector was */
    uint32_t sector_size, sectors, unit;
    uint64_t ops, cut_at;     /* programs and erasures; power fails at that one, 0: never */
    uint64_t fail_at;         /* that one fails, and power stays */
    uint64_t lie_at;          /* that one is done in part, and returns true */
    uint64_t reads, read_fails_at; /* reads; that one fails, 0: none */
    uint32_t worn;            /* no erasure of that sector works; 0: all are fine */
    bool dead;
    uint64_t rng;
} nor;

static bool nor_read(void *ctx, uint32_t at, void *out, uint32_t size)
{
    nor *n = (nor *)ctx;
    assert_true(at + size <= n->sector_size * n->sectors);
    if (n->dead || ++n->reads == n->read_fails_at) return false;
    memcpy(out, n->bytes + at, size);
    return true;
}

/* Bits of a byte that are done when power fails. */
static unsigned char some_bits(nor *n, unsigned how)
{
    uint64_t bits = test_random(&n->rng);
    if (how == 0) return (unsigned char)bits;
    if (how == 1) return (unsigned char)(bits & bits >> 8 & bits >> 16 & bits >> 24);
    return (unsigned char)(bits | bits >> 8 | bits >> 16 | bits >> 24);
}

static bool nor_program(void *ctx, uint32_t at, const void *data, uint32_t size)
{
    nor *n = (nor *)ctx;
    const unsigned char *from = (const unsigned char *)data;
    if (n->dead) return false;
    assert_true(size > 0 && at % n->unit == 0 && size % n->unit == 0);
    assert_true(at + size <= n->sector_size * n->sectors);
    assert_int_equal(at / n->sector_size, (at + size - 1) / n->sector_size);
    n->ops++;
    bool cut = n->ops == n->cut_at || n->ops == n->fail_at || n->ops == n->lie_at;
    uint32_t done = cut ? (uint32_t)test_below(&n->rng, size + 1) : size;
    unsigned how = (unsigned)test_below(&n->rng, 4);
    bool zeros = at % n->sector_size == 0; /* of a head */
    for (uint32_t i = 0; i < size; i++) zeros = zeros && from[i] == 0;
    for (uint32_t i = 0; i < size; i++) {
        unsigned char *to = &n->bytes[at + i], old = *to;
        if (i % n->unit == 0 && !zeros) assert_false(n->used[(at + i) / n->unit]);
        assert_int_equal(from[i] & ~old, 0);
        if (i < done) *to = from[i];
        else if (how < 3) *to = (unsigned char)(old & (from[i] | some_bits(n, how)));
    }
    for (uint32_t i = 0; i < size; i++)
        if (!cut || n->bytes[at + i] != 255) n->used[(at + i) / n->unit] = true;
    if (n->ops == n->cut_at) n->dead = true;
    return !cut || n->ops == n->lie_at;
}

static bool nor_erase(void *ctx, uint32_t sector)
{
    nor *n = (nor *)ctx;
    if (n->dead) return false;
    assert_true(sector < n->sectors);
    if (sector == n->worn && n->worn != 0) return false;
    n->ops++;
    n->erased[sector]++;
    unsigned char *bytes = n->bytes + sector * n->sector_size;
    bool cut = n->ops == n->cut_at || n->ops == n->fail_at;
    unsigned how = (unsigned)test_below(&n->rng, 3);
    /* bits anywhere, or all from some byte on */
    uint32_t from = how == 2 ? (uint32_t)test_below(&n->rng, n->sector_size) : 0;
    for (uint32_t i = from; i < n->sector_size; i++)
        bytes[i] = cut && how < 2 ? bytes[i] | some_bits(n, how) : 255;
    if (!cut) memset(bytes, 255, n->sector_size);
    if (!cut)
        memset(n->used + sector * n->sector_size / n->unit, 0, n->sector_size / n->unit);
    if (n->ops == n->cut_at) n->dead = true;
    return !cut;
}

static void *memory(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL) abort();
    return p;
}

static nor nor_new(uint32_t sector_size, uint32_t sectors, uint32_t unit, uint64_t rng)
{
    nor n;
    memset(&n, 0, sizeof n);
    n.sector_size = sector_size;
    n.sectors = sectors;
    n.unit = unit;
    n.rng = rng;
    n.bytes = (unsigned char *)memory(sector_size * sectors);
    n.used = (bool *)memory(sector_size * sectors);
    n.erased = (uint64_t *)memory(sectors * sizeof *n.erased);
    test_fill(&n.rng, n.bytes, sector_size * sectors); /* it was used for something else */
    memset(n.used, 1, sector_size * sectors / unit);
    return n;
}

static void nor_free(nor *n)
{
    free(n->bytes);
    free(n->used);
    free(n->erased);
}

static ms_flash flash_of(nor *n)
{
    ms_flash f;
    memset(&f, 0, sizeof f);
    f.read = nor_read;
    f.program = nor_program;
    f.erase = nor_erase;
    f.ctx = n;
    f.sector_size = n->sector_size;
    f.sectors = n->sectors;
    f.unit = n->unit;
    return f;
}

static void nor_random(void *ctx, void *out, size_t size)
{
    test_fill(&((nor *)ctx)->rng, out, size);
}

static ms_store *open_flash(ms_flash *f, void *buffer, size_t size)
{
    ms_mem_desc desc;
    ms_store *store;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = size;
    desc.keep_unset_times = true;
    desc.entropy.fill = nor_random;
    desc.entropy.ctx = f->ctx;
    desc.flash = f;
    if (ms_mem_open(&store, &desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}


/* ---- what was acknowledged ---- */

#define PLACES 3
#define BIG (1u << 19)
static const char *const places[PLACES] = {"hall", "the garden", "z"};

typedef struct fact {
    char text[48];
} fact;

typedef struct message {
    unsigned place;
    bool hidden;
    char text[96];            /* as amended */
} message;

/* All messages ever, by number, and the operation that a power loss interrupted. */
typedef struct known {
    message *items;           /* items[seq] */
    uint64_t last, cap;
    fact facts[PLACES];
    enum { NOTHING, APPEND, AMEND, HIDE, FACT } pending;
    message waiting[5];
    uint64_t seq;             /* first of the appended ones, or the changed one */
    size_t n;
    unsigned losses;          /* in a row, without an append between */
    unsigned changes;         /* since the last append */
} known;

static void known_put(known *k, const message *m)
{
    if (k->last + 2 > k->cap) {
        k->cap = k->cap * 2 + 64;
        k->items = (message *)realloc(k->items, k->cap * sizeof *k->items);
        if (k->items == NULL) abort();
    }
    k->items[++k->last] = *m;
}

/* The visible messages of a store, by number; texts absent: it is not there. */
static ms_str *dump(ms_store *store, uint64_t last)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    ms_str *seen = (ms_str *)memory((last + 10) * sizeof *seen);
    memset(&q, 0, sizeof q);
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        assert_true(ms_seq(msg) < last + 10);
        seen[ms_seq(msg)] = ms_content(msg).text;
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    return seen;
}

static void fact_of(ms_store *store, unsigned place, fact *out)
{
    static char room[1 << 17];
    ms_arena arena;
    ms_str text;
    test_arena_init_fixed(&arena, room, sizeof room);
    assert_int_equal(ms_location_get(store, ms_str_of(places[place]), &arena, &text, NULL),
                     MS_OK);
    assert_true(text.len < sizeof out->text);
    memcpy(out->text, text.ptr, text.len);
    out->text[text.len] = '\0';
}

/* Did the interrupted operation happen? An append is there or not, as a whole. */
static void settle(known *k, ms_store *store, const ms_str *seen)
{
    size_t there = 0;
    switch (k->pending) {
    case APPEND:
        for (size_t i = 0; i < k->n; i++)
            if (seen[k->seq + i].ptr != NULL) there++;
        assert_true(there == 0 || there == k->n);
        for (size_t i = 0; i < there; i++) known_put(k, &k->waiting[i]);
        break;
    case AMEND:
        if (ms_str_equal(seen[k->seq], ms_str_of(k->waiting[0].text)))
            k->items[k->seq] = k->waiting[0];
        break;
    case HIDE:
        if (seen[k->seq].ptr == NULL) k->items[k->seq].hidden = true;
        break;
    case FACT: {
        fact now;
        fact_of(store, k->waiting[0].place, &now);
        if (strcmp(now.text, k->waiting[0].text) == 0) k->facts[k->waiting[0].place] = now;
        break;
    }
    default: break;
    }
    k->pending = NOTHING;
}

/* The flash has what RAM had (`had`, `facts`), and nothing that nobody appended. */
static void compare(known *k, nor *n, const ms_str *had, const fact *facts)
{
    char *buffer = (char *)memory(BIG);
    ms_flash f = flash_of(n);
    ms_store *store = open_flash(&f, buffer, BIG);
    ms_str *seen = dump(store, k->last);
    uint64_t before = k->last;
    settle(k, store, seen);
    for (uint64_t seq = 1; seq < before + 10; seq++) {
        const message *m = seq <= k->last ? &k->items[seq] : NULL;
        if (seq <= before && had[seq].ptr != NULL && !m->hidden)
            assert_non_null(seen[seq].ptr);
        if (seen[seq].ptr == NULL) continue;
        assert_non_null(m);
        assert_false(m->hidden);
        assert_true(ms_str_equal(seen[seq], ms_str_of(m->text)));
    }
    for (unsigned i = 0; i < PLACES && k->losses < 4; i++) {
        fact now;
        fact_of(store, i, &now);
        if (strcmp(facts[i].text, "{}") == 0 && strcmp(now.text, "{}") == 0) continue;
        assert_string_equal(now.text, k->facts[i].text);
    }
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    free(seen);
    ms_close(store);
    free(buffer);
}

/* Of each location the newest are there, without a gap; the newest of all is. */
static void compare_suffix(const known *k, ms_store *store)
{
    ms_str *seen = dump(store, k->last);
    bool gone[PLACES] = {false, false, false};
    for (uint64_t seq = k->last; seq > 0; seq--) {
        const message *m = &k->items[seq];
        if (m->hidden) assert_null(seen[seq].ptr);
        if (m->hidden) continue;
        if (seq == k->last && k->changes == 0 && k->losses < 3)
            assert_non_null(seen[seq].ptr);
        if (seen[seq].ptr == NULL) gone[m->place] = true;
        else assert_false(gone[m->place]);
        if (seen[seq].ptr != NULL)
            assert_true(ms_str_equal(seen[seq], ms_str_of(m->text)));
    }
    free(seen);
}


/* ---- lives ---- */

static message make(uint64_t *rng, ms_envelope *e)
{
    message m;
    memset(&m, 0, sizeof m);
    m.place = (unsigned)test_below(rng, PLACES);
    size_t len = test_one_in(rng, 3) ? test_below(rng, sizeof m.text) : test_below(rng, 12);
    for (size_t i = 0; i < len; i++) m.text[i] = (char)('a' + test_below(rng, 26));
    *e = ms_message(test_one_in(rng, 4) ? MS_T_USER_MESSAGE : MS_T_FINAL, ms_text(""));
    e->location = ms_str_of(places[m.place]);
    return m;
}

/* One random operation; false: it failed. */
static bool step(known *k, ms_store *store, uint64_t *rng)
{
    ms_envelope e[5];
    ms_result code;
    uint64_t seqs[5];
    uint64_t what = test_below(rng, 20);
    uint64_t target = k->last > 0 ? k->last - test_below(rng, k->last < 9 ? k->last : 9) : 0;
    memset(&k->waiting, 0, sizeof k->waiting);
    if (what < 14 || target == 0) {
        ms_append_opts opts;
        memset(&opts, 0, sizeof opts);
        opts.seqs = seqs;
        k->pending = APPEND;
        k->n = what < 11 ? 1 : 1 + test_below(rng, 5);
        k->seq = k->last + 1;
        for (size_t i = 0; i < k->n; i++) k->waiting[i] = make(rng, &e[i]);
        for (size_t i = 0; i < k->n; i++) e[i].content = ms_text(k->waiting[i].text);
        code = ms_append_batch(store, e, k->n, &opts, NULL);
        for (size_t i = 0; code == MS_OK && i < k->n; i++) {
            assert_int_equal(seqs[i], k->last + 1);
            known_put(k, &k->waiting[i]);
        }
        if (code == MS_OK) k->losses = k->changes = 0;
    } else if (what < 18) {
        const ms_msg *msg;
        if (ms_get_by_seq(store, target, NULL, &msg, NULL) != MS_OK) return true;
        ms_type type = ms_type_of(msg);
        k->seq = target;
        k->waiting[0] = make(rng, &e[0]);
        k->waiting[0].place = k->items[target].place;
        k->pending = what < 17 ? AMEND : HIDE;
        e[0] = ms_message(type, ms_text(k->waiting[0].text));
        code = what < 17 ? ms_amend(store, target, &e[0], NULL) : ms_hide(store, target, NULL);
        if (code == MS_OK && what < 17) k->items[target] = k->waiting[0];
        if (code == MS_OK && what == 17) k->items[target].hidden = true;
        if (code == MS_E_NOT_FOUND) code = MS_OK; /* dropped before it was changed */
    } else {
        unsigned place = (unsigned)test_below(rng, PLACES);
        k->pending = FACT;
        k->waiting[0].place = place;
        snprintf(k->waiting[0].text, sizeof k->waiting[0].text, "{\"title\":\"%u\"}",
                 (unsigned)test_below(rng, 1000));
        code = ms_location_set(store, ms_str_of(places[place]),
                               ms_str_of(k->waiting[0].text), NULL);
        if (code == MS_OK)
            memcpy(k->facts[place].text, k->waiting[0].text, sizeof k->facts[place].text);
    }
    if (k->pending != APPEND) k->changes++;
    bool much = k->pending == APPEND && k->n > 1; /* for a quarter of a sector, or RAM */
    if (much && (code == MS_E_FULL || code == MS_E_TOO_LARGE)) code = MS_OK;
    if (code == MS_OK) k->pending = NOTHING;
    else if (code != MS_E_IO && code != MS_E_POISONED) fail_msg("%s", ms_result_text(code));
    return code == MS_OK;
}

static known known_new(void)
{
    known k;
    memset(&k, 0, sizeof k);
    for (unsigned i = 0; i < PLACES; i++) strcpy(k.facts[i].text, "{}");
    return k;
}

/* Power comes back, and the flash has what RAM had when it was lost. */
static void power_returns(known *k, nor *n, ms_store *store)
{
    fact facts[PLACES];
    ms_str *had = dump(store, k->last);
    for (unsigned i = 0; i < PLACES; i++) fact_of(store, i, &facts[i]);
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    n->dead = false;
    n->cut_at = n->fail_at = 0;
    compare(k, n, had, facts);
    free(had);
}

/* A flash lives through so many power losses. */
static void one_flash(uint64_t *rng, size_t losses)
{
    static const uint32_t sizes[] = {1024, 1024, 2048, 4096}, units[] = {1, 2, 4, 8, 16, 32};
    nor n = nor_new(sizes[test_below(rng, 4)], 3 + (uint32_t)test_below(rng, 6),
                    units[test_below(rng, 6)], test_random(rng));
    size_t size = (size_t)4096 << test_below(rng, 4);
    char *buffer = (char *)memory(size);
    known k = known_new();
    while (losses-- > 0) {
        ms_flash f = flash_of(&n);
        ms_store *store = open_flash(&f, buffer, size);
        compare_suffix(&k, store);
        n.cut_at = n.ops + 1 + test_below(&n.rng, test_one_in(rng, 4) ? 8 : 120);
        n.fail_at = test_one_in(rng, 4) ? n.ops + 1 + test_below(&n.rng, 60) : 0;
        while (!n.dead) {
            if (test_one_in(rng, 10)) (void)ms_tick(store, 0, NULL);
            if (!step(&k, store, rng) && !n.dead) {
                if (k.pending == NOTHING || f.poisoned) break;
                k.pending = NOTHING; /* it did not happen */
            }
        }
        k.losses++;
        power_returns(&k, &n, store);
        ms_close(store);
    }
    free(k.items);
    free(buffer);
    nor_free(&n);
}

static void nothing_acknowledged_is_lost_in_power_losses(void **state)
{
    enum { EACH = 50 };
    uint64_t rng = test_seed();
    size_t lives = (test_times(4000) + EACH - 1) / EACH;
    (void)state;
    for (size_t i = 0; i < lives; i++) one_flash(&rng, EACH);
    test_tally("power cuts of a flash", lives * EACH);
}

/* Each program and erasure of a short life is interrupted once, in three ways. */
static void power_fails_at_every_step(void **state)
{
    static uint64_t buffer[1024];
    size_t losses = 0;
    (void)state;
    for (uint64_t how = 0; how < 3; how++) {
        bool dead = true;
        for (uint64_t at = 1; dead; at += test_scale() < 100 ? 3 : 1) {
            known k = known_new();
            uint64_t rng = test_seed();
            nor n = nor_new(1024, 4, 8, at * 3 + how);
            ms_flash f = flash_of(&n);
            ms_store *store = open_flash(&f, buffer, sizeof buffer);
            n.cut_at = at;
            for (unsigned i = 0; i < 120 && !n.dead; i++) (void)step(&k, store, &rng);
            dead = n.dead;
            power_returns(&k, &n, store);
            free(k.items);
            nor_free(&n);
            losses++;
        }
    }
    test_tally("power cuts of a flash", losses);
}

static ms_result append_n(ms_store *store, unsigned i, size_t len, uint64_t *seq)
{
    static char text[4096];
    memset(text, 'a' + (int)(i % 26), sizeof text);
    ms_envelope m = ms_message(MS_T_FINAL, ms_text_n(ms_str_n(text, len)));
    return ms_append(store, MS_STR("hall"), &m, seq, NULL);
}

static void sectors_wear_evenly(void **state)
{
    static uint64_t buffer[1024];
    nor n = nor_new(1024, 7, 4, test_seed());
    (void)state;
    for (unsigned life = 0; life < 20; life++) {
        ms_flash f = flash_of(&n);
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        for (unsigned i = 0; i < 450 + 13 * life; i++)
            assert_int_equal(append_n(store, i, i % 100, NULL), MS_OK);
        ms_close(store);
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < n.sectors; i++) {
        if (n.erased[i] < least) least = n.erased[i];
        if (n.erased[i] > most) most = n.erased[i];
    }
    assert_true(least > 50);
    assert_true(most - least <= 8); /* of 20 openings each may erase once more */
    ms_flash f = flash_of(&n);
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    assert_true(f.order / n.sectors <= most && f.order / n.sectors + 8 >= least);
    ms_close(store);
    nor_free(&n);
}

static void limits_are_told(void **state)
{
    static uint64_t buffer[2048];
    nor n = nor_new(1024, 3, 1, test_seed());
    ms_flash f = flash_of(&n);
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    ms_mem_desc desc;
    uint64_t seq;
    (void)state;
    assert_int_equal(append_n(store, 0, 210, &seq), MS_E_TOO_LARGE);
    assert_int_equal(append_n(store, 0, 60, &seq), MS_OK);
    assert_int_equal(seq, 1);
    ms_envelope many[6];
    for (unsigned i = 0; i < 6; i++) many[i] = ms_message(MS_T_FINAL, ms_text("12345678"));
    ms_append_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.location = MS_STR("z");
    assert_int_equal(ms_append_batch(store, many, 6, &opts, NULL), MS_E_TOO_LARGE);
    assert_int_equal(ms_append_batch(store, many, 2, &opts, NULL), MS_OK);
    assert_int_equal(ms_redact(store, 1, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_mem_reset(store, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_sync(store, &seq, NULL), MS_OK);
    assert_int_equal(seq, 3);
    ms_close(store);
    memset(&desc, 0, sizeof desc);
    desc.flash = &f;
    assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    desc.buffer = buffer;
    desc.buffer_size = sizeof buffer;
    assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_E_ARGUMENT);
    static const struct { uint32_t size, sectors, unit; } wrong[] = {
        {1024, 3, 3}, {1024, 3, 64}, {1024, 2, 1}, {1000, 3, 1}, {992, 3, 1},
        {1u << 31, 3, 1}, {0, 3, 1}, {1024, 0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        f.sector_size = wrong[i].size;
        f.sectors = wrong[i].sectors;
        f.unit = wrong[i].unit;
        assert_int_equal(ms_mem_open(&store, &desc, NULL), MS_E_ARGUMENT);
    }
    nor_free(&n);
}

/* A program that returns true, but has changed a part of the bits only. */
static void a_flash_that_lies_is_noticed(void **state)
{
    static uint64_t buffer[2048];
    (void)state;
    for (uint64_t i = 0; i < test_times(2000); i++) {
        uint64_t rng = test_seed() + i;
        nor n = nor_new(1024, 4, 1u << test_below(&rng, 6), test_random(&rng));
        ms_flash f = flash_of(&n);
        uint64_t acknowledged = 0, missed = 0;
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        n.lie_at = 1 + test_below(&rng, 60);
        for (unsigned k = 0; k < 30 && missed < 3; k++) {
            uint64_t seq;
            ms_result code = append_n(store, k, test_below(&rng, 60), &seq);
            if (code == MS_OK) acknowledged = seq;
            else missed++;
        }
        assert_true(missed < 2 || f.poisoned);
        store = open_flash(&f, buffer, sizeof buffer);
        ms_str *seen = dump(store, acknowledged);
        ms_stat stat;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        bool gone = false; /* retired with its sector */
        for (uint64_t seq = acknowledged; seq > 0; seq--) {
            gone = gone || seen[seq].ptr == NULL;
            assert_true(!gone || (seen[seq].ptr == NULL && seq < acknowledged));
        }
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        assert_int_equal(append_n(store, 3, 20, NULL), MS_OK);
        free(seen);
        nor_free(&n);
    }
}

/* Each read fails once. Opening fails, and nothing is lost by it; an append fails, and the
 * next one does not. */
static void a_read_that_fails_loses_nothing(void **state)
{
    static uint64_t buffer[2048];
    (void)state;
    for (uint64_t at = 1, hit = 1; hit != 0; at += test_scale() < 100 ? 7 : 1) {
        nor n = nor_new(1024, 3, 8, 5);
        ms_flash f = flash_of(&n);
        ms_mem_desc desc;
        uint64_t last = 0;
        unsigned fails = 0;
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        assert_int_equal(ms_location_set(store, MS_STR("hall"), MS_STR("{\"a\":1}"), NULL),
                         MS_OK);
        for (unsigned k = 0; k < 40; k++) assert_int_equal(append_n(store, k, k, &last), MS_OK);
        memset(&desc, 0, sizeof desc);
        desc.buffer = buffer;
        desc.buffer_size = sizeof buffer;
        desc.flash = &f;
        n.read_fails_at = n.reads + at;
        ms_result code = ms_mem_open(&store, &desc, NULL);
        if (code == MS_E_IO) code = ms_mem_open(&store, &desc, NULL);
        assert_int_equal(code, MS_OK);
        for (unsigned k = 0; k < 40; k++) {
            uint64_t seq = 0;
            code = append_n(store, k, k, &seq);
            if (code == MS_OK) assert_int_equal(seq, ++last);
            else fails++;
            if (code == MS_E_POISONED) store = open_flash(&f, buffer, sizeof buffer);
            if (code != MS_OK && code != MS_E_POISONED) assert_int_equal(code, MS_E_IO);
            ms_stat stat; /* a number may have been taken by what was not acknowledged */
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            if (code == MS_E_POISONED) last = stat.last_seq;
        }
        assert_true(fails <= 1);
        hit = n.reads >= n.read_fails_at;
        n.read_fails_at = 0;
        fact now;
        store = open_flash(&f, buffer, sizeof buffer);
        ms_str *seen = dump(store, last);
        for (uint64_t seq = last; seq > last - 5; seq--) assert_non_null(seen[seq].ptr);
        fact_of(store, 0, &now);
        assert_string_equal(now.text, "{\"a\":1}");
        free(seen);
        nor_free(&n);
    }
}

static void a_sector_that_is_worn_out_ends_appends_alone(void **state)
{
    static uint64_t buffer[2048];
    nor n = nor_new(1024, 4, 8, test_seed());
    ms_flash f = flash_of(&n);
    uint64_t seq, last = 0;
    (void)state;
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    for (unsigned k = 0; k < 100; k++) assert_int_equal(append_n(store, k, 20, &last), MS_OK);
    n.worn = 2;
    ms_result code = MS_OK;
    while (code == MS_OK) {
        code = append_n(store, 1, 20, &seq);
        if (code == MS_OK) last = seq;
    }
    assert_int_equal(code, MS_E_IO);
    for (unsigned life = 0; life < 3; life++) {
        assert_int_equal(append_n(store, 1, 20, NULL), MS_E_IO);
        store = open_flash(&f, buffer, sizeof buffer);
        ms_str *seen = dump(store, last);
        for (uint64_t i = last; i > last - 12; i--) assert_non_null(seen[i].ptr);
        free(seen);
    }
    n.worn = 0;
    assert_int_equal(append_n(store, 1, 20, &seq), MS_OK);
    assert_int_equal(seq, last + 1);
    nor_free(&n);
}

/* Bits that rot cost the appends that they are in. */
static void a_flipped_bit_costs_one_append(void **state)
{
    static uint64_t buffer[2048];
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(2000); i++) {
        nor n = nor_new(1024, 4, 8, test_random(&rng));
        ms_flash f = flash_of(&n);
        ms_stat before, after;
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        for (unsigned k = 0; k < 20; k++)
            assert_int_equal(append_n(store, k, 20, NULL), MS_OK);
        assert_int_equal(ms_store_stat(store, &before, NULL), MS_OK);
        uint32_t at = f.sector * 1024 + 64 + (uint32_t)test_below(&rng, f.at - 64);
        n.bytes[at] ^= (unsigned char)(1u << test_below(&rng, 8));
        store = open_flash(&f, buffer, sizeof buffer);
        assert_int_equal(ms_store_stat(store, &after, NULL), MS_OK);
        assert_true(after.messages + 1 >= before.messages);
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        assert_int_equal(append_n(store, 3, 20, NULL), MS_OK);
        nor_free(&n);
    }
}

/* A key may be given again once its message was dropped, and opening brings that back. */
static void a_key_stands_for_its_newest_message(void **state)
{
    static uint64_t buffer[512], big[8192];
    nor n = nor_new(4096, 8, 8, test_seed());
    ms_flash f = flash_of(&n);
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    uint64_t first, second, seq;
    ms_envelope m = ms_message(MS_T_FINAL, ms_text("one"));
    m.key = MS_STR("k");
    (void)state;
    assert_int_equal(ms_append(store, MS_STR("hall"), &m, &first, NULL), MS_OK);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(append_n(store, i, 60, NULL), MS_OK);
    m.content = ms_text("two");
    assert_int_equal(ms_append(store, MS_STR("hall"), &m, &second, NULL), MS_OK);
    assert_true(second > first);
    store = open_flash(&f, big, sizeof big);
    assert_int_equal(ms_append(store, MS_STR("hall"), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, second);
    nor_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_told),
        cmocka_unit_test(a_key_stands_for_its_newest_message),
        cmocka_unit_test(sectors_wear_evenly),
        cmocka_unit_test(a_flash_that_lies_is_noticed),
        cmocka_unit_test(a_read_that_fails_loses_nothing),
        cmocka_unit_test(a_sector_that_is_worn_out_ends_appends_alone),
        cmocka_unit_test(a_flipped_bit_costs_one_append),
        cmocka_unit_test(power_fails_at_every_step),
        cmocka_unit_test(nothing_acknowledged_is_lost_in_power_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
