/* A store in raw flash, over a simulated NOR flash: bits go from 1 to 0 alone, each unit is
 * programmed once between two erasures, anything else fails the test. Power fails at any
 * program or erasure, of which a random part of the bits is done then. After each loss the
 * flash is opened again and compared with what the store had in RAM.
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FLASH
#include "ring_operations.h"
#include "lend.h"

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
    bool zeros = at % n->sector_size == 0; /* of a header */
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

static nor nor_new(uint32_t sector_size, uint32_t sectors, uint32_t unit, uint64_t rng)
{
    nor n = {.sector_size = sector_size, .sectors = sectors, .unit = unit, .rng = rng};
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
    ms_flash f = {.read = nor_read, .program = nor_program, .erase = nor_erase, .ctx = n,
                  .sector_size = n->sector_size, .sectors = n->sectors, .unit = n->unit};
    return f;
}

static void nor_random(void *ctx, void *out, size_t size)
{
    test_fill(&((nor *)ctx)->rng, out, size);
}

static ms_store *open_flash(ms_flash *f, void *buffer, size_t size)
{
    ms_mem_desc desc = {.buffer = buffer, .buffer_size = size, .keep_unset_times = true,
                        .entropy = {nor_random, f->ctx}, .flash = f};
    ms_store *store;
    ms_error err;
    if (ms_mem_open(&store, &desc, &err) != MS_OK) fail_msg("open: %s", err.message);
    return store;
}


/* ---- what was acknowledged ---- */

#define BIG (1u << 19)

/* All records ever, and the operation that a power loss interrupted. */
typedef struct known {
    list l;
    uint64_t last;
    op o;
    bool pending;
    unsigned losses;          /* in a row, without an append between */
    unsigned changes;         /* since the last append */
} known;

/* One random operation; false: it failed. */
static bool step(known *k, ms_store *store, uint64_t *rng)
{
    op *o = &k->o;
    uint64_t seqs[OP_MOST];
    op_random(o, rng, &k->l, store, k->last, 90);
    k->pending = true;
    ms_result code = op_do(o, store, seqs);
    bool append = o->kind == MS_KIND_MESSAGE;
    if (append && code == MS_OK && seqs[0] <= k->last) { /* its key was known */
        k->pending = false;
        return true;
    }
    for (size_t i = 0; append && code == MS_OK && i < o->n; i++)
        assert_int_equal(seqs[i], ++k->last);
    if (code == MS_OK && !list_take(&k->l, store, o))
        assert_int_equal(o->kind, MS_KIND_HIDE); /* of a range that was dropped */
    if (append && code == MS_OK) k->losses = k->changes = 0;
    if (!append) k->changes++;
    bool gone = !append && code == MS_E_NOT_FOUND; /* dropped before it was changed */
    bool much = o->n > 1 && (code == MS_E_FULL || code == MS_E_TOO_LARGE);
    if (gone || much) code = MS_OK;
    if (code == MS_OK) k->pending = false;
    else if (code != MS_E_IO && code != MS_E_POISONED) fail_msg("%s", ms_result_text(code));
    return code == MS_OK;
}

/* Did the interrupted operation happen? An append is there as a whole, or not. */
static void settle(known *k, const list *now)
{
    size_t there = 0;
    for (size_t i = 0; k->pending && i < now->n; i++) {
        const ms_msg *msg = now->items[i];
        bool is_old = !op_fits(&k->o, there, msg);
        for (size_t j = 0; !is_old && j < k->l.n; j++)
            is_old = record_same(k->l.items[j], msg);
        if (is_old) continue;
        list_put(&k->l, msg);
        there++;
    }
    assert_true(there == 0 || there == k->o.n);
    if (there > 0 && k->o.kind == MS_KIND_MESSAGE) k->last += there;
    k->pending = false;
}

/* The store has no other records than the known ones, in their order: of each place the
 * newest messages, without a gap, and their changes. */
static void must_have_the_newest(const known *k, const list *now)
{
    uint64_t first[PLACES];
    size_t n = 0;
    for (unsigned i = 0; i < PLACES; i++) first[i] = UINT64_MAX;
    for (size_t i = now->n; i-- > 0;)
        if (record_is(now->items[i], MS_KIND_MESSAGE))
            first[record_place(now->items[i])] = ms_seq(now->items[i]);
    for (size_t i = 0; i < k->l.n; i++) {
        const ms_msg *msg = k->l.items[i];
        if (record_is(msg, MS_KIND_LOCATION)) continue;
        while (n < now->n && record_is(now->items[n], MS_KIND_LOCATION)) n++;
        if (n < now->n && record_same(msg, now->items[n])) n++;
        else assert_true(record_last(msg) < first[record_place(msg)]);
    }
    while (n < now->n && record_is(now->items[n], MS_KIND_LOCATION)) n++;
    assert_int_equal(n, now->n);
}

/* Also the newest of all, which may be gone only after many changes or losses. */
static void must_have_a_suffix(const known *k, ms_store *store)
{
    list now = {NULL, 0, 0};
    bool newest = k->last == 0 || k->changes > 0 || k->losses > 2;
    list_read(&now, store, 0);
    must_have_the_newest(k, &now);
    for (size_t i = 0; i < now.n; i++)
        newest = newest || (record_is(now.items[i], MS_KIND_MESSAGE) &&
                            ms_seq(now.items[i]) == k->last);
    assert_true(newest);
    list_empty(&now);
}

/* The facts of a place, and those that were set last. */
static void must_have_facts(const known *k, ms_store *had, ms_store *now, unsigned place)
{
    static char room[1 << 17];
    ms_arena arena;
    ms_str last = MS_STR("{}");
    test_arena_init_fixed(&arena, room, sizeof room);
    for (size_t i = 0; i < k->l.n; i++)
        if (record_is(k->l.items[i], MS_KIND_LOCATION) &&
            record_place(k->l.items[i]) == place)
            last = ms_content(k->l.items[i]).text;
    ms_str before = facts_of(had, place, &arena), after = facts_of(now, place, &arena);
    if (before.len == 2 && after.len == 2) return; /* dropped with their messages */
    assert_true(ms_str_equal(after, last));
}

/* Power comes back. The flash has what RAM had when it was lost, and nothing that nobody
 * appended. */
static void power_returns(known *k, nor *n, ms_store *store)
{
    list had = {NULL, 0, 0}, now = {NULL, 0, 0};
    void *buffer = memory(BIG);
    ms_flash f = flash_of(n);
    size_t i = 0;
    assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
    list_read(&had, store, 0);
    n->dead = false;
    n->cut_at = n->fail_at = 0;
    ms_store *again = open_flash(&f, buffer, BIG);
    list_read(&now, again, 0);
    settle(k, &now);
    must_have_the_newest(k, &now);
    for (size_t j = 0; j < had.n; j++) {
        if (record_is(had.items[j], MS_KIND_LOCATION)) continue;
        while (i < now.n && !record_same(had.items[j], now.items[i])) i++;
        assert_true(i < now.n);
    }
    for (unsigned place = 0; place < PLACES && k->losses < 4; place++)
        must_have_facts(k, store, again, place);
    must_show_all(&now, again);
    list_empty(&had);
    list_empty(&now);
    ms_close(again);
    free(buffer);
}


/* ---- lives ---- */

/* A flash lives through so many power losses. */
static void one_flash(uint64_t *rng, size_t losses)
{
    static const uint32_t sizes[] = {1024, 1024, 2048, 4096}, units[] = {1, 2, 4, 8, 16, 32};
    nor n = nor_new(sizes[test_below(rng, 4)], 3 + (uint32_t)test_below(rng, 6),
                    units[test_below(rng, 6)], test_random(rng));
    size_t size = (size_t)4096 << test_below(rng, 4);
    void *buffer = memory(size);
    known *k = (known *)memory(sizeof *k);
    while (losses-- > 0) {
        ms_flash f = flash_of(&n);
        ms_store *store = open_flash(&f, buffer, size);
        must_have_a_suffix(k, store);
        n.cut_at = n.ops + 1 + test_below(&n.rng, test_one_in(rng, 4) ? 8 : 120);
        n.fail_at = test_one_in(rng, 4) ? n.ops + 1 + test_below(&n.rng, 60) : 0;
        while (!n.dead) {
            if (test_one_in(rng, 10)) (void)ms_tick(store, 0, NULL);
            if (!step(k, store, rng) && !n.dead) {
                if (!k->pending || f.poisoned) break;
                k->pending = false; /* it did not happen */
            }
        }
        k->losses++;
        power_returns(k, &n, store);
        ms_close(store);
    }
    list_empty(&k->l);
    free(k);
    free(buffer);
    nor_free(&n);
}

TEST(nothing_acknowledged_is_lost_in_power_losses)
{
    enum { EACH = 50 };
    uint64_t rng = test_seed();
    size_t lives = (test_times(4000) + EACH - 1) / EACH;
    for (size_t i = 0; i < lives; i++) one_flash(&rng, EACH);
    test_tally("power cuts of a flash", lives * EACH);
}

/* Each program and erasure of a short life is interrupted once, in three ways. */
TEST(power_fails_at_every_step)
{
    static uint64_t buffer[1024];
    size_t losses = 0;
    for (uint64_t how = 0; how < 3; how++) {
        bool dead = true;
        for (uint64_t at = 1; dead; at += test_scale() < 100 ? 3 : 1) {
            known *k = (known *)memory(sizeof *k);
            uint64_t rng = test_seed();
            nor n = nor_new(1024, 4, 8, at * 3 + how);
            ms_flash f = flash_of(&n);
            ms_store *store = open_flash(&f, buffer, sizeof buffer);
            n.cut_at = at;
            for (unsigned i = 0; i < 120 && !n.dead; i++) (void)step(k, store, &rng);
            dead = n.dead;
            power_returns(k, &n, store);
            list_empty(&k->l);
            free(k);
            nor_free(&n);
            losses++;
        }
    }
    test_tally("power cuts of a flash", losses);
}

static bool has(ms_store *store, uint64_t seq)
{
    const ms_msg *msg;
    return ms_get_by_seq(store, seq, NULL, &msg, NULL) == MS_OK;
}

static ms_result append_n(ms_store *store, unsigned i, size_t len, uint64_t *seq)
{
    static char text[4096];
    memset(text, 'a' + (int)(i % 26), sizeof text);
    ms_envelope m = ms_message(MS_T_FINAL, ms_text_n(ms_str_n(text, len)));
    return ms_append(store, ms_str_of(places[0]), &m, seq, NULL);
}

TEST(sectors_wear_evenly)
{
    static uint64_t buffer[1024];
    nor n = nor_new(1024, 7, 4, test_seed());
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

TEST(limits_are_reported)
{
    static uint64_t buffer[2048];
    nor n = nor_new(1024, 3, 1, test_seed());
    ms_flash f = flash_of(&n);
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    ms_mem_desc desc = {.flash = &f};
    uint64_t seq;
    assert_int_equal(append_n(store, 0, 210, &seq), MS_E_TOO_LARGE);
    assert_int_equal(append_n(store, 0, 60, &seq), MS_OK);
    assert_int_equal(seq, 1);
    ms_envelope many[6];
    for (unsigned i = 0; i < 6; i++) many[i] = ms_message(MS_T_FINAL, ms_text("12345678"));
    ms_append_opts opts = {.location = MS_STR("z")};
    assert_int_equal(ms_append_batch(store, many, 6, &opts, NULL), MS_E_TOO_LARGE);
    assert_int_equal(ms_append_batch(store, many, 2, &opts, NULL), MS_OK);
    assert_int_equal(ms_redact(store, 1, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_mem_reset(store, NULL), MS_E_UNSUPPORTED);
    assert_int_equal(ms_sync(store, &seq, NULL), MS_OK);
    assert_int_equal(seq, 3);
    ms_close(store);
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
TEST(a_flash_that_lies_is_noticed)
{
    static uint64_t buffer[2048];
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
        bool gone = false; /* retired with its sector */
        for (uint64_t seq = acknowledged; seq > 0; seq--) {
            bool there = has(store, seq);
            assert_true(there || seq < acknowledged);
            assert_false(there && gone);
            gone = !there;
        }
        assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
        assert_int_equal(append_n(store, 3, 20, NULL), MS_OK);
        nor_free(&n);
    }
}

/* Each read fails once. Opening fails, and nothing is lost by it; an append fails, and the
 * next one does not. */
TEST(a_read_that_fails_loses_nothing)
{
    static uint64_t buffer[2048];
    for (uint64_t at = 1, hit = 1; hit != 0; at += test_scale() < 100 ? 7 : 1) {
        nor n = nor_new(1024, 3, 8, 5);
        ms_flash f = flash_of(&n);
        ms_mem_desc desc = {.buffer = buffer, .buffer_size = sizeof buffer, .flash = &f};
        ms_arena arena;
        uint64_t last = 0;
        unsigned fails = 0;
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        assert_int_equal(ms_location_set(store, ms_str_of(places[0]), MS_STR("{\"a\":1}"), NULL),
                         MS_OK);
        for (unsigned k = 0; k < 40; k++) assert_int_equal(append_n(store, k, k, &last), MS_OK);
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
        store = open_flash(&f, buffer, sizeof buffer);
        for (uint64_t seq = last; seq > last - 5; seq--) assert_true(has(store, seq));
        test_arena_init(&arena, NULL);
        assert_true(ms_str_equal(facts_of(store, 0, &arena), MS_STR("{\"a\":1}")));
        ms_arena_deinit(&arena);
        nor_free(&n);
    }
}

TEST(a_sector_that_is_worn_out_ends_appends_alone)
{
    static uint64_t buffer[2048];
    nor n = nor_new(1024, 4, 8, test_seed());
    ms_flash f = flash_of(&n);
    uint64_t seq, last = 0;
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
        for (uint64_t i = last; i > last - 12; i--) assert_true(has(store, i));
    }
    n.worn = 0;
    assert_int_equal(append_n(store, 1, 20, &seq), MS_OK);
    assert_int_equal(seq, last + 1);
    nor_free(&n);
}

/* Bits that rot cost the appends that they are in. */
TEST(a_flipped_bit_costs_one_append)
{
    static uint64_t buffer[2048];
    uint64_t rng = test_seed();
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
TEST(a_key_stands_for_its_newest_message)
{
    static uint64_t buffer[512], big[8192];
    nor n = nor_new(4096, 8, 8, test_seed());
    ms_flash f = flash_of(&n);
    ms_store *store = open_flash(&f, buffer, sizeof buffer);
    uint64_t first, second, seq;
    ms_envelope m = ms_message(MS_T_FINAL, ms_text("one"));
    m.key = MS_STR("k");
    assert_int_equal(ms_append(store, ms_str_of(places[0]), &m, &first, NULL), MS_OK);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(append_n(store, i, 60, NULL), MS_OK);
    m.content = ms_text("two");
    assert_int_equal(ms_append(store, ms_str_of(places[0]), &m, &second, NULL), MS_OK);
    assert_true(second > first);
    store = open_flash(&f, big, sizeof big);
    assert_int_equal(ms_append(store, ms_str_of(places[0]), &m, &seq, NULL), MS_OK);
    assert_int_equal(seq, second);
    nor_free(&n);
}

static size_t visible(ms_store *store)
{
    ms_stat stat;
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    return (size_t)stat.messages;
}

/* A user's message is a turn. RAM takes what it had, or a turn less where the index has
 * no room for it; it was a third less. */
TEST(reopening_shows_the_newest_messages_that_the_same_memory_takes)
{
    static uint64_t buffer[1024];
    uint64_t rng = test_seed();
    for (unsigned round = 0; round < 40; round++) {
        nor n = nor_new(1024u << test_below(&rng, 3), 16, 1u << test_below(&rng, 5),
                        test_random(&rng));
        ms_flash f = flash_of(&n);
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        for (unsigned i = 0; i < 300; i++) {
            char text[64];
            memset(text, 'x', sizeof text);
            ms_envelope m = ms_user_message(
                ms_text_n(ms_str_n(text, 1 + (size_t)test_below(&rng, sizeof text))));
            ms_str place = ms_str_of(places[i % 3]);
            assert_int_equal(ms_append(store, place, &m, NULL, NULL), MS_OK);
            if (i < 150 || i % 10) continue;
            size_t before = visible(store);
            assert_true(before > 20);
            ms_close(store);
            store = open_flash(&f, buffer, sizeof buffer);
            if (visible(store) + 1 < before)
                fail_msg("round %u: %zu of %zu messages", round, visible(store), before);
        }
        ms_close(store);
        nor_free(&n);
    }
}

/* Such sectors counted as empty: the store opened without messages and erased them. */
TEST(flash_of_another_format_or_sector_size_is_refused)
{
    static uint64_t buffer[1024];
    static const char *const texts[2] = {
        "sector 1 of the flash has format 2 and 2048 bytes, format 3 and 2048 were"
        " expected; what is erased begins anew",
        "sector 0 of the flash has format 3 and 2048 bytes, format 3 and 1024 were"
        " expected; what is erased begins anew"};
    for (int smaller = 0; smaller < 2; smaller++) {
        nor n = nor_new(2048, 8, 8, 1);
        ms_flash f = flash_of(&n);
        ms_mem_desc desc = {.buffer = buffer, .buffer_size = sizeof buffer, .flash = &f,
                            .entropy = {nor_random, &n}};
        unsigned char before[8 * 2048];
        ms_store *store = open_flash(&f, buffer, sizeof buffer);
        ms_error err;
        for (unsigned i = 0; i < 60; i++)
            assert_int_equal(append_n(store, i, 60, NULL), MS_OK);
        ms_close(store);
        f = flash_of(&n);
        if (smaller) {
            f.sector_size = 1024;
            f.sectors = 16;
        } else {
            uint32_t check;
            n.bytes[2048 + 3] = '2';
            check = ms__crc32c(0, n.bytes + 2048, 24);
            memcpy(n.bytes + 2048 + 24, &check, 4);
        }
        memcpy(before, n.bytes, sizeof before);
        assert_int_equal(ms_mem_open(&store, &desc, &err), MS_E_FOREIGN);
        assert_string_equal(err.message, texts[smaller]);
        assert_memory_equal(n.bytes, before, sizeof before);
        nor_free(&n);
    }
}

/* The buffer is the store's, and of a flash the struct and its context. */
static char sectors[4][2048];

static bool sector_read(void *ctx, uint32_t at, void *out, uint32_t size)
{
    memcpy(out, (char *)ctx + at, size);
    return true;
}

static bool sector_program(void *ctx, uint32_t at, const void *data, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        ((char *)ctx)[at + i] &= ((const char *)data)[i];
    return true;
}

static bool sector_erase(void *ctx, uint32_t sector)
{
    memset((char *)ctx + sector * sizeof sectors[0], 0xFF, sizeof sectors[0]);
    return true;
}

TEST(rings_and_flashes_keep_nothing_of_their_arguments)
{
    static uint64_t buffer[1024];
    for (int flashes = 0; flashes < 2; flashes++) {
        ms_mem_desc desc;
        ms_flash flash;
        ms_store *store;
        ms_stat stat;
        ms_cursor it;
        const ms_msg *msg;
        uint64_t seq = 0;
        memset(&desc, 0, sizeof desc);
        memset(&flash, 0, sizeof flash);
        memset(sectors, 0xFF, sizeof sectors);
        flash.read = sector_read;
        flash.program = sector_program;
        flash.erase = sector_erase;
        flash.ctx = sectors;
        flash.sector_size = sizeof sectors[0];
        flash.sectors = COUNT(sectors);
        desc.buffer = buffer;
        desc.buffer_size = sizeof buffer;
        desc.drop_oldest = !flashes;
        if (flashes) desc.flash = &flash;
        gone(ms_mem_open(&store, LEND(ms_mem_desc, desc), NULL));
        for (int i = 0; i < 200; i++) {
            ms_envelope m = *lent_message(i % 2 ? "odd" : "even");
            if (i % 2) {
                char key[24];
                snprintf(key, sizeof key, "key %d", i);
                m.key = lend(key);
            }
            gone(ms_append(store, lend("job"), LEND(ms_envelope, m), &seq, NULL));
            if (i % 20 == 0) {
                gone(ms_note(store, seq, lend("k"), ms_text_n(lend("n")), NULL));
                gone(ms_location_set(store, lend("job"), lend("{\"a\":1}"), NULL));
            }
        }
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        assert_true(stat.dropped > 0);
        ms_query q;
        memset(&q, 0, sizeof q);
        q.location = MS_STR("job");
        gone(ms_query_open(store, LEND(ms_query, q), &it, NULL));
        while ((msg = ms_next(&it)) != NULL) {
            bool even = ms_get(msg, MS_F_KEY).text.ptr == NULL;
            assert_true(ms_str_equal(ms_get(msg, MS_F_AGENT_KEY).text, MS_STR("agent")));
            assert_true(ms_str_equal(ms_content(msg).text,
                                     even ? MS_STR("even") : MS_STR("odd")));
        }
        assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
        ms_close(store);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
