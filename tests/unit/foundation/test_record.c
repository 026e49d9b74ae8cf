/* The encoded message: types, roles and times go in and come out, every flipped bit and
 * every truncation is found, and the layout is that of the essay of [record]. This
 * program holds the implementation itself, for the checksum and its two ways. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include "twin.h"
#include "arena.h"
#include "file_format.h"

#if !defined(_WIN32)
#include <sys/mman.h>
#endif

static uint64_t rng;

/* Any other field may be absent. */
static ms_envelope smallest(void)
{
    return ms_message(MS_T_TASK, ms_text(""));
}


/* ---- in and out ---- */

static const ms_msg *encoded(const ms_envelope *m)
{
    const ms_msg *msg = NULL;
    ms_error err;
    if (ms_encode(m, &arena, &msg, &err) != MS_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    return msg;
}

/* All getters return what the envelope has. */
static void expect_same(const ms_msg *msg, const ms_envelope *m)
{
    twin_msg *want = twin_msg_new(m, m->location);
    want->seq = m->seq;
    const char *what = twin_differs(want, msg);
    if (what != NULL) fail_msg("%s differs", what);
    assert_int_equal(ms_size(msg) % 8, 0);
    twin_msg_free(want);
}

/* Decodes a copy of the bytes that ends where they end. The copy stays until the next call. */
static const ms_msg *decoded(const void *bytes, size_t size, ms_result want, size_t row)
{
    static void *copy;
    const ms_msg *msg = (const ms_msg *)(size_t)8;
    free(copy);
    copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    ms_result result = ms_decode(copy, size, &msg, NULL);
    if (result != want) fail_msg("row %zu: %s", row, ms_result_text(result));
    assert_true((msg == NULL) == (result != MS_OK));
    return msg;
}

/* Encodes a message, and decodes it again: both times it is the same. */
static void goes_through(const ms_envelope *m)
{
    const ms_msg *msg = encoded(m), *again = decoded(msg, ms_size(msg), MS_OK, 0);
    expect_same(msg, m);
    assert_int_equal(ms_size(again), ms_size(msg));
    expect_same(again, m);
}

TEST(every_type_and_role_comes_back)
{
    for (int t = 1; t < MS_TYPE_COUNT; t++) {
        for (int r = 0; r < MS_ROLE_LIMIT; r++) {
            ms_envelope m = smallest();
            m.type = (ms_type)t;
            m.role = (ms_role)r;
            m.tool = m.worker = m.task = m.from_manager = MS_STR("x");
            m.type_name = MS_STR("word");
            m.role_name = MS_STR("narrator");
            m.args = ms_json(MS_STR("{}"));
            if (test_envelope_check(&m, NULL) != MS_OK) continue;
            goes_through(&m);
            const ms_msg *msg = encoded(&m);
            ms_str word = ms_str_of(ms_type_word(m.type));
            if (t == MS_T_OTHER) word = m.type_name;
            assert_true(ms_str_equal(ms_type_name(msg), word));
            word = ms_str_of(ms_role_word(ms_role_of(msg)));
            if (r == MS_ROLE_OTHER) word = m.role_name;
            assert_true(ms_str_equal(ms_role_name(msg), word));
        }
        ms_arena_reset(&arena);
    }
}

TEST(times_keep_every_bit)
{
    static const int64_t times[] = {0, 1, -1, 100000000, -SECONDS(1), SECONDS(1700000000),
                                    1700000000123456789, INT64_MAX, INT64_MIN + 1};
    for (size_t i = 0; i < COUNT(times); i++) {
        ms_envelope m = smallest();
        m.time_ns = times[i];
        goes_through(&m); /* not set: has_time is false */
        m.has_time = true;
        goes_through(&m);
        assert_true(ms_time(encoded(&m), NULL));
    }
}


/* ---- damage ---- */

/* Is this run of bytes refused as damaged, without a read beyond it? */
static void expect_refused(const unsigned char *bytes, size_t size, size_t at,
                           unsigned what)
{
    const ms_msg *msg = (const ms_msg *)(size_t)8;
    ms_error err;
    ms_result result = ms_decode(bytes, size, &msg, &err);
    if (result == MS_OK || msg != NULL) {
        fail_msg("byte %u of %u, change 0x%02x: not found", (unsigned)at, (unsigned)size,
                 what);
    }
    assert_true(result == MS_E_DAMAGED);
    assert_int_equal(err.code, result);
    assert_true(err.message[0] != '\0');
}

/* All single bits, all bytes to 00 and FF and to a random other one, all lengths. */
static void attack(const ms_envelope *m)
{
    const ms_msg *msg = encoded(m);
    size_t size = ms_size(msg);
    unsigned char *bytes = (unsigned char *)calloc(1, size + 8);
    assert_non_null(bytes);
    memcpy(bytes, msg, size);
    for (size_t i = 0; i < size; i++) {
        unsigned char was = bytes[i];
        for (unsigned k = 0; k < 11; k++) {
            const unsigned char others[3] = {0, 0xFF, (unsigned char)test_random(&rng)};
            bytes[i] = k < 8 ? (unsigned char)(was ^ 1u << k) : others[k - 8];
            if (bytes[i] != was) expect_refused(bytes, size, i, bytes[i]);
        }
        bytes[i] = was;
    }
    for (size_t end = size + 1; end <= size + 8; end++)
        expect_refused(bytes, end, size, 0);
    for (size_t cut = size - 1; cut + 1 > 0; cut--) { /* nothing is read after the end */
        bytes = (unsigned char *)realloc(bytes, cut + (cut == 0));
        expect_refused(bytes, cut, cut, 0);
    }
    free(bytes);
}

TEST(every_flipped_bit_is_found)
{
    rng = test_seed() + 3;
    ms_envelope m = smallest();
    attack(&m);
    m = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{\"schema\":\"public\"}")),
                  ms_str_of(NULL));
    m.has_time = true;
    m.time_ns = SECONDS(1234567890.5);
    m.agent_key = MS_STR("worker");
    m.location = MS_STR("job_123");
    attack(&m);
    for (size_t pad = 0; pad < 8; pad++) { /* every amount of padding at the end */
        m = ms_user_message(ms_text_n(ms_str_n("12345678", pad)));
        attack(&m);
    }
}

TEST(noise_is_refused)
{
    uint64_t words[64];
    memset(words, 0, sizeof words);
    rng = test_seed() + 4;
    for (size_t size = 0; size <= sizeof words; size += 8) {
        expect_refused((unsigned char *)words, size, 0, 0);
    }
    memset(words, 0xFF, sizeof words);
    expect_refused((unsigned char *)words, sizeof words, 0, 0);
    for (size_t n = test_times(20000); n > 0; n--) {
        test_fill(&rng, words, sizeof words);
        expect_refused((unsigned char *)words, sizeof words, 0, 0);
    }
    const ms_msg *msg;
    assert_int_not_equal(ms_decode(NULL, 0, &msg, NULL), MS_OK);
}


/* ---- memory ---- */

TEST(encoding_is_refused_without_memory)
{
    ms_envelope m = ms_user_message(ms_text("caf\xe9"));
    const ms_msg *msg = (const ms_msg *)(size_t)8;
    test_alloc heap;
    ms_arena small;
    test_arena_fails_first(&small, &heap);
    assert_int_equal(ms_encode(&m, &small, &msg, NULL), MS_E_NO_MEMORY);
    assert_null(msg);
    assert_int_equal(ms_encode(&m, &small, &msg, NULL), MS_OK);
    ms_arena_deinit(&small);
    test_alloc_done(&heap);
}


/* ---- CRC32C ---- */

TEST(the_checksum_of_known_texts_is_right)
{
    static const unsigned char zeros[32];
    static const struct {
        const void *bytes;
        size_t n;
        uint32_t crc;
    } rows[] = {{zeros, 32, 0x8a9136aau}, {"123456789", 9, 0xe3069283u}, {"", 0, 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const unsigned char *p = (const unsigned char *)rows[i].bytes;
        assert_int_equal(file_crc(0, p, rows[i].n), rows[i].crc);
        assert_int_equal(ms__crc32c(0, p, rows[i].n), rows[i].crc);
        assert_int_equal(ms__crc32c_table(0, p, rows[i].n), rows[i].crc);
    }
}

/* ---- the layout, by hand ---- */

/* Both checks, and the padding before them. */
static size_t sealed(unsigned char *r)
{
    size_t size = (size_t)file_get(r, 4), padded = (size + 7) / 8 * 8;
    memset(r + size, 0, padded - size);
    file_put(r + 32, 4, file_crc(0, r + 40, padded - 40));
    file_put(r + 36, 4, file_crc(0, r, 36));
    return padded;
}

/* A task: location "job_1", content {"a":1} as JSON, extra {}, type, time and sequence;
 * every number here is an offset or a size of the essay. */
static size_t by_hand(unsigned char *r)
{
    static const unsigned char directory[] = {7, 1, 5, 4 | 0x20, 7, 20 | 0x20, 2};
    static const char values[] = "job_1{\"a\":1}{}";
    int64_t time = SECONDS(1234567890.5);
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    memset(r, 0, 40);
    file_put(r, 4, 40 + sizeof directory + sizeof values - 1);
    r[4] = 1; /* a message */
    r[5] = 8; /* task */
    r[6] = 2; /* assistant */
    r[7] = MS_FLAG_JOINED;
    file_put(r + 8, 8, 0x0102030405060708u);
    file_put(r + 16, 8, bits);
    memcpy(r + 40, directory, sizeof directory);
    memcpy(r + 40 + sizeof directory, values, sizeof values - 1);
    return sealed(r);
}

static ms_envelope the_same_by_builder(void)
{
    ms_envelope m = ms_message(MS_T_TASK, ms_json(MS_STR("{\"a\":1}")));
    m.role = MS_ROLE_ASSISTANT;
    m.flags = MS_FLAG_JOINED;
    m.location = MS_STR("job_1");
    m.extra = MS_STR("{}");
    m.has_time = true;
    m.time_ns = SECONDS(1234567890.5);
    m.seq = 0x0102030405060708u;
    return m;
}

TEST(layout_is_that_of_the_essay)
{
    uint64_t room[16];
    unsigned char *r = (unsigned char *)room;
    ms_envelope m = the_same_by_builder();
    size_t size = by_hand(r);
    expect_same(decoded(r, size, MS_OK, 0), &m);
    assert_int_equal(ms_size(encoded(&m)), size);
    assert_memory_equal(encoded(&m), r, size);
    m.has_time = false;
    r = (unsigned char *)(uintptr_t)encoded(&m);
    assert_int_equal(file_get(r + 16, 8), UINT64_C(1) << 63);
}

/* Records with right checksums and wrong contents: refused, never read beyond. */
TEST(a_record_with_right_checksums_is_refused_when_it_lies)
{
    static const struct {
        unsigned at;
        unsigned char byte;
        ms_result code;
    } rows[] = {
        {0, 40, MS_E_DAMAGED},      /* no body */
        {0, 0, MS_E_DAMAGED},       /* less than a header */
        {0, 53, MS_E_DAMAGED},      /* a byte less: the fields are too long */
        {0, 55, MS_E_DAMAGED},      /* a byte more */
        {1, 1, MS_E_DAMAGED},       /* far more than there is */
        {3, 255, MS_E_DAMAGED},
        {4, 0, MS_E_FOREIGN},       /* kinds */
        {4, 2, MS_E_FOREIGN},
        {4, 8, MS_E_FOREIGN},
        {4, 200, MS_E_FOREIGN},
        {5, 0, MS_E_FOREIGN},       /* types */
        {5, MS_TYPE_COUNT, MS_E_FOREIGN},
        {6, 0x12, MS_E_FOREIGN},    /* codec */
        {40, 0, MS_E_DAMAGED},      /* directory: its size */
        {40, 6, MS_E_DAMAGED},
        {40, 8, MS_E_DAMAGED},
        {40, 15, MS_E_DAMAGED},
        {40, 255, MS_E_DAMAGED},
        {41, 0, MS_E_DAMAGED},      /* tags: none, not rising, unknown */
        {41, 4, MS_E_DAMAGED},
        {41, 5, MS_E_DAMAGED},
        {43, 1, MS_E_DAMAGED},
        {45, 31, MS_E_DAMAGED},
        {45, MS_FIELD_COUNT, MS_E_DAMAGED},
        {41, 1 | 1 << 6, MS_E_DAMAGED},  /* lengths of another size */
        {45, 20 | 2 << 6, MS_E_DAMAGED},
        {45, 20 | 3 << 6, MS_E_DAMAGED},
        {42, 4, MS_E_DAMAGED},      /* lengths that do not add up */
        {42, 6, MS_E_DAMAGED},
        {46, 255, MS_E_DAMAGED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t room[1024];
        unsigned char *r = (unsigned char *)room;
        size_t size = by_hand(r);
        memset(r + size, 0, sizeof room - size);
        r[rows[i].at] = rows[i].byte;
        if (file_get(r, 4) > 40 && file_get(r, 4) < sizeof room - 8) size = sealed(r);
        else file_put(r + 36, 4, file_crc(0, r, 36));
        (void)decoded(r, size, rows[i].code, i);
    }
}

/* Bodies whose directory does not fit them. */
TEST(a_body_with_a_right_checksum_is_refused_when_it_lies)
{
    static const struct {
        size_t size;
        unsigned char body[16];
        bool holds;
    } rows[] = {
        {1, {1}, true},                            /* no fields */
        {3, {3, 4, 0}, true},
        {6, {3, 4, 3, 'a', 'b', 'c'}, true},
        {2, {1, 4}, false},                        /* a byte that is no one's */
        {2, {2, 4}, false},                        /* a tag without a length */
        {5, {2, 4, 3, 'a', 'b'}, false},           /* ... but a value follows */
        {5, {3, 4 | 1 << 6, 2, 0, 'a'}, false},    /* half a length */
        {8, {4, 4 | 2 << 6, 3, 0, 0, 0, 'a', 'b'}, false},
        {2, {3, 4}, false},                        /* longer than the body */
        {7, {255, 1, 0, 2, 0, 3, 0}, false},
        {8, {9, 1, 0, 2, 0, 3, 0, 4}, false},
        {1, {0}, false},                           /* not even itself */
        {1, {2}, false},
        {4, {4, 4 | 1 << 6, 255, 255}, false},     /* far too long a value */
        {6, {6, 4 | 2 << 6, 255, 255, 255, 255}, false},
        {11, {10, 4 | 3 << 6, 1, 0, 0, 0, 0, 0, 0, 0, 'a'}, false}, /* eight bytes of length */
        {11, {11, 4 | 2 << 6, 1, 0, 0, 128, 5 | 2 << 6, 255, 255, 255, 127}, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t room[16];
        unsigned char *r = (unsigned char *)room;
        by_hand(r);
        file_put(r, 4, 40 + rows[i].size);
        memcpy(r + 40, rows[i].body, rows[i].size);
        (void)decoded(r, sealed(r), rows[i].holds ? MS_OK : MS_E_DAMAGED, i);
    }
}

/* The first byte of a body is the length of its directory. One that is longer than the
 * body is refused unread: there may be nothing after the body. */
TEST(a_directory_longer_than_its_body_is_not_read)
{
    static const unsigned char lie[8] = {200, 1, 0, 2, 0, 3, 0, 4};
    unsigned char *body = (unsigned char *)malloc(sizeof lie);
    assert_non_null(body);
    memcpy(body, lie, sizeof lie);
    assert_non_null(ms__body_fault(body, sizeof lie));
    free(body);
}


/* ---- the limits of a record ---- */

TEST(record_is_refused_when_it_is_over_the_limit)
{
    ms_error err;
    ms_envelope m = ms_user_message(ms_text_n(ms_str_n("x", MS__VALUE_MAX + (size_t)1)));
    ms__layout l = {.dir = 1};
    l.values = MS__RECORD_MAX - MS__HEADER - l.dir;
    assert_int_equal(ms__layout_end(&l, &err), MS_OK);
    l.values++;
    assert_int_equal(ms__layout_end(&l, &err), MS_E_TOO_LARGE);
    assert_int_equal(ms__envelope_check(&m, NULL), MS_E_TOO_LARGE); /* it is not read */
}

/* The location of the call begins where that of the message begins: it is another one, and
 * both are checked. */
TEST(location_is_checked_when_that_of_the_call_is_its_beginning)
{
    static const char text[] = "room\xff";
    ms_envelope m = ms_user_message(ms_text("hello"));
    ms__layout l;
    ms_error err;
    memset(&l, 0, sizeof l);
    m.location = ms_str_n(text, 5);
    assert_int_equal(ms__layout_of(&m, ms_str_n(text, 4), MS__UNKNOWN, &l, &err),
                     MS_E_UTF8);
    assert_string_equal(err.path, "location");
    m.location = ms_str_n(text, 4);
    assert_int_equal(ms__layout_of(&m, ms_str_n(text, 4), MS__UNKNOWN, &l, &err), MS_OK);
    uint64_t same = l.values;
    assert_int_equal(ms__layout_of(&m, ms_str_n(text, 2), MS__UNKNOWN, &l, &err), MS_OK);
    assert_int_equal(l.values, same - 2);
}

TEST(message_is_refused_when_there_is_none_or_no_arena_or_an_odd_flag)
{
    static uint64_t room[16];
    ms_envelope m = ms_user_message(ms_text("hello"));
    const ms_msg *msg;
    assert_int_equal(ms__envelope_check(NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_encode(&m, NULL, &msg, NULL), MS_E_ARENA);
    assert_null(msg);
    assert_int_equal(ms_decode((const char *)room + 4, 64, &msg, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_decode(NULL, 64, &msg, NULL), MS_E_ARGUMENT);
    m.flags = 0x10000;
    assert_int_equal(ms_encode(&m, &arena, &msg, NULL), MS_E_ARGUMENT);
    assert_null(msg);
}

/* The 4 bytes at p that give the body of r the check `wanted`: a CRC is linear, so each
 * bit of them changes it in its own way, and 32 equations say which are set. */
static void force_check(unsigned char *r, unsigned char *p, uint32_t wanted)
{
    size_t size = ms__padded(ms__get32(r)) - MS__HEADER;
    uint32_t row[32], bit[32], set = 0;
    ms__put32(p, 0);
    uint32_t none = ms__crc32c(0, r + MS__HEADER, size), rest = none ^ wanted;
    for (unsigned i = 0; i < 32; i++) {
        ms__put32(p, (uint32_t)1 << i);
        row[i] = ms__crc32c(0, r + MS__HEADER, size) ^ none;
        bit[i] = (uint32_t)1 << i;
    }
    for (unsigned i = 0; i < 32; i++) { /* the i-th row's highest bit leaves the others */
        if (row[i] == 0) fail_msg("a bit does not change the check");
        unsigned high = 31;
        while (!(row[i] >> high & 1)) high--;
        for (unsigned k = 0; k < 32; k++)
            if (k != i && (row[k] >> high & 1)) row[k] ^= row[i], bit[k] ^= bit[i];
        if (rest >> high & 1) rest ^= row[i], set ^= bit[i];
    }
    ms__put32(p, set);
}

TEST(body_is_not_erased_when_its_check_is_that_of_erased_ones)
{
    ms_envelope m = ms_user_message(ms_text("0123456789abcdef"));
    const ms_msg *msg = encoded(&m), *again;
    unsigned char *r = (unsigned char *)(uintptr_t)ms__bytes(msg);
    unsigned char *text = (unsigned char *)(uintptr_t)ms_content(msg).text.ptr;
    force_check(r, text + 4, MS__ERASED);
    assert_int_equal(ms__crc32c(0, r + MS__HEADER, ms_size(msg) - MS__HEADER),
                     MS__ERASED);
    ms__seal(r, 0);
    assert_false(ms_flags(msg) & MS_FLAG_REDACTED);
    assert_int_equal(ms_decode(r, ms_size(msg), &again, NULL), MS_OK);
    text[0] ^= 1; /* and its check is one that is looked at */
    assert_int_equal(ms_decode(r, ms_size(msg), &again, NULL), MS_E_DAMAGED);
}

/* A record of a store with valid checks, and without location or with a codec. */
TEST(record_is_damaged_when_it_has_no_location_or_a_codec)
{
    ms_envelope m = ms_user_message(ms_text("hello"));
    unsigned char *r = (unsigned char *)(uintptr_t)ms__bytes(encoded(&m));
    assert_int_equal(ms__check_record(r, 0, NULL), MS_E_DAMAGED);
    m.location = MS_STR("here");
    r = (unsigned char *)(uintptr_t)ms__bytes(encoded(&m));
    assert_int_equal(ms__check_record(r, 0, NULL), MS_OK);
    r[4] = MS__KIND_NOTE;
    r[5] = 0;
    r[6] = 0x10;
    assert_int_equal(ms__check_record(r, 0, NULL), MS_E_DAMAGED);
}


/* ---- records of stores of one's own ---- */

/* Encodes an action with these arguments as a record of that kind. */
static unsigned char *kept_record(unsigned kind, const char *args, size_t *size)
{
    ms_envelope m = ms_action(MS_STR("tool"), ms_json(ms_str_of(args)), MS_STR("call"));
    m.location = MS_STR("here");
    m.content = ms_text("secret");
    m.seq = 3;
    if (kind != MS_KIND_MESSAGE) m.type = MS_T_NONE;
    m.flags = MS_FLAG_UNFINISHED | MS_FLAG_AMENDED;
    const ms_record record = {.envelope = m, .kind = (ms_kind)kind};
    const ms_msg *msg;
    assert_int_equal(ms_record_encode(&record, &arena, &msg, NULL), MS_OK);
    *size = ms_size(msg);
    assert_int_equal(ms_flags(msg), MS_FLAG_UNFINISHED | MS_FLAG_AMENDED);
    return (unsigned char *)(uintptr_t)ms__bytes(msg);
}

/* One byte of the record is changed. sealed: its checks are made anew. more: so many bytes
 * follow it. */
TEST(a_record_of_any_kind_is_decoded_when_it_is_whole)
{
    static const struct {
        unsigned kind, at;
        unsigned char bits;
        bool sealed;
        size_t more;
        ms_result code;
    } rows[] = {
        {MS_KIND_MESSAGE, 0, 0, false, 0, MS_OK},
        {MS_KIND_NOTE, 0, 0, false, 0, MS_OK},
        {MS_KIND_MESSAGE, 36, 1, false, 0, MS_E_DAMAGED}, /* its header */
        {MS_KIND_NOTE, 36, 1, false, 0, MS_E_DAMAGED},
        {MS_KIND_MESSAGE, 48, 1, false, 0, MS_E_DAMAGED}, /* its body */
        {MS_KIND_NOTE, 48, 1, false, 0, MS_E_DAMAGED},
        {MS_KIND_MESSAGE, 6, 0x10, true, 0, MS_E_FOREIGN}, /* its codec */
        {MS_KIND_NOTE, 41, 0x3f, true, 0, MS_E_DAMAGED}, /* the first of its tags */
        {MS_KIND_MESSAGE, 0, 0, false, 8, MS_E_DAMAGED}, /* there is more */
        {MS_KIND_NOTE, 0, 0, false, 8, MS_E_DAMAGED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t size;
        uint64_t room[32] = {0};
        unsigned char *bytes = (unsigned char *)room;
        const ms_msg *msg = (const ms_msg *)(size_t)8;
        const unsigned char *r = kept_record(rows[i].kind, "{}", &size);
        assert_true(size + 8 <= sizeof room);
        memcpy(bytes, r, size);
        bytes[rows[i].at] ^= rows[i].bits;
        if (rows[i].sealed) sealed(bytes);
        ms_result got = ms_record_decode(bytes, size + rows[i].more, 77, &msg, NULL);
        if (got != rows[i].code)
            fail_msg("row %u: %s", (unsigned)i, ms_result_text(got));
        if (got != MS_OK) {
            assert_null(msg);
            continue;
        }
        assert_ptr_equal(msg, bytes);
        assert_int_equal(ms_seq(msg), 77);
        assert_int_equal((unsigned)ms_kind_of(msg), rows[i].kind);
        assert_true(ms_str_equal(ms_content(msg).text, MS_STR("secret")));
        assert_int_equal(ms_record_decode(bytes, size, 78, &msg, NULL), MS_OK);
    }
}

/* Names and lengths stay, and JSON stays JSON. */
TEST(a_record_has_no_values_when_it_was_erased)
{
    static const char *const rows[][2] = {
        {"{\"a\":\"secret\"}", "{}            "}, {"[\"secret\"]", "[]        "},
        {"\"secret\"", "\"\"      "},            {"1234567", "0      "}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t size;
        const ms_msg *msg;
        unsigned char *r = kept_record(MS_KIND_MESSAGE, rows[i][0], &size);
        ms_record_erase(r);
        assert_null(memmem(r, size, "secret", 6));
        assert_int_equal(ms_record_decode(r, size, 3, &msg, NULL), MS_OK);
        assert_int_equal(ms_size(msg), size);
        assert_true(ms_str_equal(ms_get(msg, MS_F_ARGS).text, ms_str_of(rows[i][1])));
        assert_true(ms_str_equal(ms_get(msg, MS_F_TOOL).text, MS_STR("tool")));
        assert_true(ms_str_equal(ms_content(msg).text, MS_STR("[redac")));
    }
}


/* ---- how many ---- */

#if !defined(_WIN32) && SIZE_MAX > UINT32_MAX

/* Resizes a map, whose pages the system provides when they are first written. */
static void *resize_untouched(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    void *fresh = NULL;
    if (new_size != 0)
        fresh = mmap(NULL, new_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return NULL;
    size_t kept = old_size < new_size ? old_size : new_size;
    if (kept != 0) memcpy(fresh, ptr, kept);
    if (old_size != 0 && munmap(ptr, old_size) != 0) abort();
    return fresh;
}

/* An entry counts units of 8 bytes in 32 bits. The end of the records is set to just so
 * many records below the limit as fit. */
TEST(arena_store_is_full_at_32_gibibytes)
{
    ms_store *store;
    ms_error err;
    const ms_msg *msg;
    ms_mem_desc desc = {.chunk_size = (size_t)1 << 34, .alloc = {resize_untouched, NULL}};
    void *room = resize_untouched(NULL, NULL, 0, (size_t)1 << 35);
    if (room == NULL) {
        printf("skipped: this process has no 32 GiB of addresses\n");
        skip();
    }
    resize_untouched(NULL, room, (size_t)1 << 35, 0);
    must_ok(ms_mem_open(&store, &desc, &err), &err, "open");
    ms_envelope m = smallest();
    uint64_t n = 1;
    assert_int_equal(ms_append(store, MS_STR("job"), &m, NULL, NULL), MS_OK);
    ms__tail *t = &ms__mem_of(store)->tail;
    assert_int_equal(ms_get_by_seq(store, 1, NULL, &msg, NULL), MS_OK);
    uint32_t units = (uint32_t)(ms_size(msg) + 7) / 8;
    t->end = t->filled = 0xFFFFFFF0u - 50 * units;
    while (n < 100 && ms_append(store, MS_STR("job"), &m, NULL, &err) == MS_OK) n++;
    assert_int_equal(n, 1 + 50);
    assert_int_equal(err.code, MS_E_FULL);
    assert_non_null(strstr(err.message, "an arena store holds"));
    for (uint64_t seq = 1; seq <= n + 1; seq++)
        assert_int_equal(ms_get_by_seq(store, seq, NULL, &msg, NULL),
                         seq <= n ? MS_OK : MS_E_NOT_FOUND);
    ms_close(store);
    desc.buffer = &rng;
    desc.buffer_size = (size_t)1 << 35;
    desc.chunk_size = 0;
    assert_int_equal(ms_mem_open(&store, &desc, &err), MS_E_ARGUMENT);
    assert_string_equal(err.message, "buffer_size is 34359738368, 2048 to 34359738247 "
                                     "were expected");
}

#endif

int main(void)
{
    return run_all_tests(reset, release);
}
