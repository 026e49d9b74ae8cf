/* The header's fast paths against naive twins: sixteen bytes at a time, checksums by
 * instruction, names in words, records that are measured once, names of the last appends.
 * Each function is there twice (tests/support/fast.h), with wide paths and without, and
 * both have to return the same. Texts end at a page that may not be touched, or a little
 * before it: one byte too far ends the program. */
#define _GNU_SOURCE
#include "fast.h"
#include "stores.h"
#include "guard_pages.h"
#include "file_format.h"
#include "json_maker.h"

enum { LONGEST = 300, SHIFTS = 64, WAYS = 2 };

static fast ways[WAYS];


/* ---- the guard pages ---- */

static int fences_up(void **state)
{
    ways[0] = fast_wide();
    ways[1] = fast_plain();
    return guard_pages_up(state);
}

/* Room for n bytes that ends `shift` bytes before the forbidden page. */
static char *room_of(size_t n, size_t shift)
{
    return guarded + GUARDED - shift - n;
}


/* ---- one odd byte at every place ---- */

typedef struct place {
    const fast *f;
    char *text;
    size_t n, at; /* at n: there is none */
    unsigned char byte;
} place;

static void wrong(const place *p, const char *what)
{
    fail_msg("%s %s: %zu bytes, %02x at %zu", p->f->name, what, p->n, p->byte, p->at);
}

/* Where the run of usual bytes ends. */
static size_t run_of(const place *p, bool stops)
{
    return stops ? p->at : p->n;
}

static bool is_special(unsigned char c)
{
    return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void sixteen(const place *p, unsigned (*look)(const unsigned char *), size_t run,
                    const char *what)
{
    const unsigned char *text = (const unsigned char *)p->text;
    size_t from = p->n < 16 ? 0 : p->n - 16;
    if (look == NULL || p->n < 16) return;
    if (look(text) != least(run, 16)) wrong(p, what);
    if (run >= from && look(text + from) != least(run - from, 16)) wrong(p, what);
}

static void ascii_at(const place *p)
{
    const unsigned char *text = (const unsigned char *)p->text;
    size_t run = run_of(p, p->byte >= 0x80), bad = SIZE_MAX;
    ms_str whole = ms_str_n(p->text, p->n);
    if (p->f->ascii_run(text, p->n) != run) wrong(p, "ascii_run");
    if (p->n < 16 && p->f->ascii_few(text, p->n) != (run == p->n)) wrong(p, "ascii_few");
    if (p->f->utf8_check(whole, &bad) != (run == p->n)) wrong(p, "utf8_check");
    if (run < p->n && bad != run) wrong(p, "utf8_check's place");
    sixteen(p, p->f->ascii_16, run, "ascii_16");
}

static void plain_at(const place *p)
{
    size_t run = run_of(p, is_special(p->byte));
    bool name = p->n <= MS_KEY_MAX &&
                (p->at == p->n || (p->byte != 0 && p->byte < 0x80));
    if (p->f->plain_run(p->text, p->text + p->n) != run) wrong(p, "plain_run");
    if (p->f->is_plain_name(ms_str_n(p->text, p->n)) != name) wrong(p, "is_plain_name");
    sixteen(p, p->f->plain_16, run, "plain_16");
}

/* Every place of one length; every `stride`th but close to the guard pages. All bytes
 * have their turn as the odd one; those after the text are odd, too. */
static void each_place_of(place *p, size_t shift, size_t stride,
                          void (*look)(const place *))
{
    memset(p->text, 'a', p->n);
    for (p->at = shift % stride; p->at <= p->n; p->at += stride) {
        p->byte = (unsigned char)(p->at * 7 + p->n * 37 + shift * 11);
        memset(p->text + p->n, p->byte, shift);
        if (p->at < p->n) p->text[p->at] = (char)p->byte;
        look(p);
        if (p->at < p->n) p->text[p->at] = 'a';
    }
}

/* Lengths from 0 on, and those around the longest name. */
static void each_place(void (*look)(const place *))
{
    place p;
    for (size_t way = 0; way < WAYS; way++)
        for (size_t shift = 0; shift < SHIFTS; shift++)
            for (size_t i = 0; i <= LONGEST + 40; i++) {
                p.f = &ways[way];
                p.n = i <= LONGEST ? i : MS_KEY_MAX - 20 + (i - LONGEST);
                if (i > LONGEST && shift > 0) break;
                p.text = room_of(p.n, shift);
                each_place_of(&p, shift, shift == 0 ? 1 : 13, look);
            }
}

TEST(ascii_runs_end_at_the_first_other_byte)
{
    each_place(ascii_at);
}

TEST(plain_runs_end_at_the_first_special_byte)
{
    each_place(plain_at);
}


/* ---- random text ---- */

static size_t naive_run(const unsigned char *p, size_t n, bool ascii)
{
    size_t i = 0;
    while (i < n && (ascii ? p[i] < 0x80 : !is_special(p[i]))) i++;
    return i;
}

/* Characters of all lengths, rarely broken, between runs of usual bytes. */
static size_t random_characters(uint64_t *rng, char *out, size_t most, uint64_t broken)
{
    static const char *const some[] = {"\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf", "\"",
                                       "\xf0\x9f\x99\x82", "\xf4\x8f\xbf\xbf", "\\"};
    size_t used = 0, run;
    while (used + 45 < most) {
        const char *c = some[test_below(rng, COUNT(some))];
        run = (size_t)test_below(rng, 40);
        memset(out + used, 'b', run);
        used += run;
        memcpy(out + used, c, strlen(c));
        used += strlen(c);
        if (test_one_in(rng, broken)) out[used - 1] = (char)test_random(rng);
        if (test_one_in(rng, broken)) used--;
    }
    return used;
}

static void same_runs(const fast *f, ms_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t bad = SIZE_MAX, want;
    bool fine = naive_utf8(p, s.len, &want);
    assert_int_equal(f->ascii_run(p, s.len), naive_run(p, s.len, true));
    assert_int_equal(f->plain_run(s.ptr, s.ptr + s.len), naive_run(p, s.len, false));
    assert_int_equal(f->utf8_check(s, &bad), fine);
    if (!fine) assert_int_equal(bad, want);
}

TEST(runs_and_characters_of_random_text_are_right)
{
    uint64_t rng = test_seed();
    static char text[2048];
    for (size_t i = 0; i < test_times(12000); i++) {
        size_t most = 46 + (size_t)test_below(&rng, test_one_in(&rng, 9) ? 2000 : 300);
        size_t n = random_characters(&rng, text, most, 1 + test_below(&rng, 60));
        size_t from = (size_t)test_below(&rng, n + 1);
        ms_str s = at_end(text + from, n - from);
        for (size_t way = 0; way < WAYS; way++) same_runs(&ways[way], s);
    }
}


/* ---- checks ---- */

static void same_crc(uint32_t before, const unsigned char *p, size_t n, uint32_t want)
{
    for (size_t way = 0; way < WAYS; way++)
        if (ways[way].crc(before, p, n) != want ||
            ways[way].crc_table(before, p, n) != want)
            fail_msg("%s: the check of %zu bytes", ways[way].name, n);
}

TEST(checksums_are_right_at_every_length_and_alignment)
{
    uint64_t rng = test_seed();
    unsigned char bytes[LONGEST];
    test_fill(&rng, bytes, sizeof bytes);
    for (size_t n = 0; n <= LONGEST; n++) {
        uint32_t before = (uint32_t)test_random(&rng);
        uint32_t want = file_crc(before, bytes, n);
        for (size_t shift = 0; shift < SHIFTS; shift++) {
            char *text = room_of(n, shift);
            memcpy(text, bytes, n);
            same_crc(before, (const unsigned char *)text, n, want);
        }
    }
}

/* Around the lengths where three parts become longer, and where they are longest. */
TEST(checksums_of_long_bytes_are_right)
{
    static unsigned char bytes[14000];
    static const size_t edges[] = {192,  216,  384,  3048, 3072,
                                   3096, 3264, 6144, 9216, 9408};
    uint64_t rng = test_seed();
    test_fill(&rng, bytes, sizeof bytes);
    for (size_t i = 0; i < test_times(600); i++) {
        size_t n = edges[i % COUNT(edges)] - 12 + (size_t)test_below(&rng, 25);
        if (test_one_in(&rng, 4)) n = (size_t)test_below(&rng, sizeof bytes);
        size_t cut = (size_t)test_below(&rng, n + 1);
        ms_str s = at_end(bytes + test_below(&rng, sizeof bytes - n), n);
        const unsigned char *p = (const unsigned char *)s.ptr;
        uint32_t first = file_crc(7, p, cut);
        same_crc(7, p, cut, first);
        same_crc(first, p + cut, n - cut, file_crc(first, p + cut, n - cut));
    }
}

TEST(the_checksum_of_a_header_is_right)
{
    uint64_t rng = test_seed();
    unsigned char bytes[44];
    for (size_t i = 0; i < test_times(12000); i++) {
        uint32_t before = (uint32_t)test_random(&rng);
        test_fill(&rng, bytes, sizeof bytes);
        uint64_t number = file_get64(bytes);
        ms_str s = at_end(bytes + 8, 36);
        uint32_t want = file_crc(before, bytes, sizeof bytes);
        for (size_t way = 0; way < WAYS; way++) {
            const fast *f = &ways[way];
            if (f->crc_header == NULL) continue;
            if (f->crc_header(before, number, (const unsigned char *)s.ptr) != want)
                fail_msg("%s: the check of a header", f->name);
        }
    }
}


/* ---- JSON ---- */

/* Both ways agree: on the verdict, and on the place of an error. The wide one is judged
 * beside jansson by test_json. */
static void same_json(ms_str s)
{
    ms_error err[WAYS];
    ms_result got[WAYS];
    for (size_t way = 0; way < WAYS; way++) {
        memset(&err[way], 0, sizeof err[way]);
        got[way] = ways[way].json_check(s, NULL, NULL, &err[way]);
    }
    if (got[0] != got[1] || (got[0] != MS_OK && err[0].offset != err[1].offset))
        fail_msg("JSON of %zu bytes, two verdicts: %s %s: %.*s", s.len, err[0].message,
                 err[1].message, (int)least(s.len, 200), s.ptr);
}

/* Strings of every length, at every place a byte that ends or breaks something. */
TEST(json_is_judged_right_when_a_string_has_an_odd_byte)
{
    static const unsigned char odd[] = {'"',  '\\', 0x1f, 0x00, 0x7f, 0x80,
                                        0xc3, 0xe2, 0xff, 0x20, 0xa2, 0xdc};
    for (size_t n = 2; n <= LONGEST; n++) {
        for (size_t shift = 0; shift < 32; shift++) {
            char *text = room_of(n, shift);
            memset(text, 'n', n + shift); /* an escape of it is one */
            text[0] = text[n - 1] = '"';
            for (size_t at = 1 + shift; at < n - 1; at += shift == 0 ? 1 : 29) {
                text[at] = (char)odd[(at + n + shift) % COUNT(odd)];
                same_json(ms_str_n(text, n));
                text[at] = 'n';
            }
        }
    }
}

TEST(random_json_is_judged_right)
{
    static maker m;
    m.random = test_seed();
    for (size_t i = test_times(12000); i > 0; i--) {
        make_text(&m);
        for (uint64_t n = below(&m, 3); n > 0; n--) mutate(&m);
        same_json(at_end(m.bytes, m.len));
    }
}


/* ---- records: measured once, written as they were measured ---- */

/* The record of an envelope after its header, by the essay of [record]. */
typedef struct body {
    size_t n; /* without padding */
    bool repaired;
    unsigned char bytes[1 << 20];
} body;

static void naive_body(const ms_envelope *m, body *out)
{
    static char values[1 << 20];
    ms_value field[MS_FIELD_COUNT];
    size_t used = 0, dir = 1;
    message_fields(m, field);
    out->repaired = false;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (field[f].text.ptr == NULL) continue;
        ms_str text = field[f].text;
        size_t len = naive_repair(text, values + used), bad;
        size_t code = len < 256 ? 0 : len < 65536 ? 1 : 2;
        if (!naive_utf8((const unsigned char *)text.ptr, text.len, &bad))
            out->repaired = true;
        out->bytes[dir++] = (unsigned char)(f | (field[f].json ? 0x20u : 0u) | code << 6);
        file_put(out->bytes + dir, (size_t)1 << code, len);
        dir += (size_t)1 << code;
        used += len;
    }
    out->bytes[0] = (unsigned char)dir;
    memcpy(out->bytes + dir, values, used);
    out->n = dir + used;
}

/* Is a message the record of that envelope? */
static void must_be(const ms_msg *msg, const ms_envelope *m, const char *how)
{
    static body want;
    const unsigned char *r = (const unsigned char *)(const void *)msg;
    naive_body(m, &want);
    size_t padded = (40 + want.n + 7) / 8 * 8, size = file_get32(r);
    if (size != 40 + want.n || ms_size(msg) != padded)
        fail_msg("%s: a record of %zu bytes, not %zu", how, size, 40 + want.n);
    if (memcmp(r + 40, want.bytes, want.n) != 0) fail_msg("%s: another record", how);
    for (size_t i = 40 + want.n; i < padded; i++)
        if (r[i] != 0) fail_msg("%s: padding that is not zero", how);
    bool given = (m->flags & MS_FLAG_REPAIRED) != 0;
    if (((ms_flags(msg) & MS_FLAG_REPAIRED) != 0) != (want.repaired || given))
        fail_msg("%s: the mark of repair", how);
    if (ms_type_of(msg) != m->type) fail_msg("%s: another type", how);
}

static bool same_place(ms_value a, ms_value b)
{
    return a.text.ptr == b.text.ptr && a.text.len == b.text.len && a.json == b.json;
}

/* All ways to the fields of a message return the same. */
static void same_fields(const ms_msg *msg)
{
    ms_value all[MS_FIELD_COUNT], want[MS_FIELD_COUNT];
    ms_envelope m = ms_envelope_of(msg);
    memset(all, 0xA5, sizeof all);
    uint32_t set = ms_fields(msg, all);
    message_fields(&m, want);
    assert_int_equal(set & 1u, 0);
    assert_int_equal(set >> MS_FIELD_COUNT, 0);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_value one = ms_get(msg, (ms_field)f);
        bool there = (set >> f & 1) != 0;
        if (there != (one.text.ptr != NULL) || there != (want[f].text.ptr != NULL) ||
            (there && (!same_place(all[f], one) || !same_place(want[f], one))))
            fail_msg("field %u has two values", f);
    }
}

enum { LETTERS = 80000 };

static char letters[LETTERS], broken[LETTERS];

static void make_letters(uint64_t *rng)
{
    for (size_t i = 0; i < LETTERS; i++) letters[i] = (char)('a' + test_below(rng, 26));
    size_t n = random_characters(rng, broken, LETTERS, 6);
    memset(broken + n, 0xe2, LETTERS - n);
}

/* Text of lengths around those where something changes. */
static ms_str text_for(uint64_t *rng, bool sound)
{
    static const size_t edges[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 255, 256, 257, 300};
    size_t len = edges[test_below(rng, COUNT(edges))];
    if (test_one_in(rng, 4)) len = (size_t)test_below(rng, 400);
    if (test_one_in(rng, 60)) len = 65530 + (size_t)test_below(rng, 12);
    if (test_one_in(rng, 9) && len > 0) len--;
    const char *from = sound || test_one_in(rng, 2) ? letters : broken;
    return ms_str_n(from + test_below(rng, LETTERS - len), len);
}

static ms_str name_for(uint64_t *rng)
{
    static const char *const names[] = {"a", "job", "job_1", "h\xc3\xa9", "12345678",
                                        "123456789012345", "1234567890123456",
                                        "12345678901234567\xe2\x82\xac"};
    if (test_one_in(rng, 20))
        return ms_str_n(letters, 1 + (size_t)test_below(rng, MS_KEY_MAX));
    return ms_str_of(names[test_below(rng, COUNT(names))]);
}

static ms_envelope envelope_for(uint64_t *rng, bool sound)
{
    ms_envelope m = random_message(rng);
    while (sound && m.content.text.ptr != NULL && !m.content.json &&
           memchr(m.content.text.ptr, 0xff, m.content.text.len) != NULL)
        m = random_message(rng);
    m.location = name_for(rng);
    if (test_one_in(rng, 2)) m.agent_key = name_for(rng);
    if (test_one_in(rng, 2)) m.turn_id = name_for(rng);
    if (test_one_in(rng, 2)) m.content = ms_text_n(text_for(rng, sound));
    if (test_one_in(rng, 4)) m.summary = text_for(rng, sound);
    if (test_one_in(rng, 4)) m.call_id = text_for(rng, sound);
    if (test_one_in(rng, 6)) m.phase_id = ms_text_n(text_for(rng, sound));
    return m;
}

TEST(an_encoded_message_is_what_was_measured)
{
    uint64_t rng = test_seed();
    ms_arena arena;
    ms_error err;
    test_arena_init(&arena, NULL);
    make_letters(&rng);
    for (size_t i = 0; i < test_times(3000); i++) {
        ms_envelope m = envelope_for(&rng, test_one_in(&rng, 2));
        const ms_msg *msg[WAYS];
        for (size_t way = 0; way < WAYS; way++) {
            if (ways[way].encode(&m, &arena, &msg[way], &err) != MS_OK)
                fail_msg("%s: %s", ways[way].name, err.message);
            must_be(msg[way], &m, ways[way].name);
        }
        same_fields(msg[0]);
        assert_int_equal(ms_size(msg[0]), ms_size(msg[1]));
        assert_memory_equal(msg[0], msg[1], ms_size(msg[0]));
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}


/* ---- names found lately ---- */

enum { NAMES = 64, APPENDS = 4000 };

typedef struct names {
    char text[NAMES][24];                   /* of one mark: they share a place */
    uint32_t n[NAMES], agents[NAMES][NAMES]; /* messages of a location, and of an agent */
} names;

static void names_make(names *w)
{
    uint32_t mark = ways[0].name_mark(ms_str_of("one"), 0) >> 20;
    memset(w, 0, sizeof *w);
    for (unsigned i = 0, found = 0; found < NAMES; i++) {
        char *text = w->text[found];
        snprintf(text, sizeof w->text[0], i % 2 ? "n%u" : "name number %u", i);
        found += ways[0].name_mark(ms_str_of(text), 0) >> 20 == mark;
    }
}

/* Appends a message. To make that fail, a second one repeats a key with another content:
 * then names that the first one made must be forgotten. */
static void name_append(names *w, ms_store *store, size_t at, size_t agent,
                        bool fails)
{
    ms_envelope m[2];
    m[0] = m[1] = ms_observation(ms_text("content"), ms_str_of(NULL));
    m[0].location = ms_str_of(w->text[at]);
    m[0].agent_key = ms_str_of(w->text[agent]);
    m[1].content = ms_text("another content");
    m[1].location = m[1].key = MS_STR("key");
    assert_int_equal(ms_append_batch(store, m, fails ? 2 : 1, NULL, NULL),
                     fails ? MS_E_KEY_REUSED : MS_OK);
    w->n[at] += !fails;
    w->agents[at][agent] += !fails;
}

static void must_have_names(const names *w, ms_store *store)
{
    for (size_t i = 0; i < NAMES; i++) {
        ms_query q = query_of(ms_str_of(w->text[i]), 0);
        assert_int_equal(count_of(store, &q), w->n[i]);
        q.views = MS_VIEW_AGENT;
        for (size_t k = 0; k < NAMES; k++) {
            q.agent_key = ms_str_of(w->text[k]);
            if (count_of(store, &q) != w->agents[i][k])
                fail_msg("agent %s of %s", w->text[k], w->text[i]);
        }
    }
}

#define ON(test, kind) {#test " on store " #kind, test, NULL, NULL, &store_kinds[kind]}
#define ON_SOME_STORES(test) ON(test, 0), ON(test, 1), ON(test, 3), ON(test, 5)

/* There are more names from append to append; half of those that fail are tried again. */
TEST_WITH(ON_SOME_STORES, names_are_found_after_failed_appends)
{
    static names w;
    test_store s = store_open((const store_kind *)*state, NULL);
    uint64_t rng = test_seed();
    for (int round = 0; round < (s.kind->arena ? 2 : 1); round++) {
        ms_envelope m = ms_observation(ms_text("content"), ms_str_of(NULL));
        m.key = MS_STR("key");
        must_append(s.store, m.key, &m);
        names_make(&w);
        for (size_t i = 0; i < APPENDS; i++) {
            size_t at = test_below(&rng, 1 + i * NAMES / APPENDS);
            size_t agent = test_below(&rng, NAMES);
            bool fails = test_one_in(&rng, 3);
            name_append(&w, s.store, at, agent, fails);
            if (fails && test_one_in(&rng, 2)) name_append(&w, s.store, at, agent, false);
        }
        must_have_names(&w, s.store);
        if (s.kind->arena) assert_int_equal(ms_mem_reset(s.store, NULL), MS_OK);
    }
    store_close(&s);
}

int main(void)
{
    if (fences_up(NULL) != 0) return 1;
    return run_all_tests(NULL, NULL);
}
