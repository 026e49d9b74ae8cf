/* Hostile files: a log file or an image of an arena store that was changed on purpose by
 * somebody who then puts the checks right, so that the code behind the checks is reached.
 *
 *     uint64_t rng = seed;
 *     size = hostile_mutate(log, size, room, &rng);        a few lies, checks put right
 *     hostile_recheck(log, size, false);                   checks alone, after other lies
 *     size = hostile_mutate_image(image, size, &rng);      the same of an image
 *
 * What is changed: each field of the superblock and of the live words; each field of a
 * record's header; directories and values of fields (lengths, tags, NUL, bad UTF-8, deep
 * JSON); each word of INDEX and LOST records (outside, in the middle of a record, to
 * itself, in a cycle); whole records (twice, exchanged, left out, put in, sealed for
 * another place); the size of the file. Numbers are the ones that break things: 0, the
 * size of a header, one more and one less than what was there, powers of two, the ends of
 * each width, offsets of other records.
 *
 * Everything follows from *rng alone. Bytes that are no log at all are fine: then only
 * bytes at random are changed. Nothing is read or written outside of [log, log + room).
 */

#ifndef HOSTILE_H
#define HOSTILE_H

#include "file_format.h"
#include "support.h"

enum { HOSTILE_SPOTS = 4096, HOSTILE_SUPER = 8192, HOSTILE_IMAGE_HEADER = 64 };

/* The parts of a file. */
typedef struct hostile_map {
    unsigned char *bytes;
    size_t size, room;
    bool image;
    unsigned char id[16];     /* of a log; of an image: image_id */
    unsigned char image_id[8];
    size_t end;               /* of the last record */
    size_t n;
    uint32_t spots[HOSTILE_SPOTS]; /* offsets of records */
} hostile_map;


/* ---- checks ---- */

/* Returns the header check of the record at `r` for an offset. */
static inline uint32_t hostile_check(const hostile_map *m, size_t at,
                                     const unsigned char *r)
{
    unsigned char seed[16];
    if (!m->image) return file_check(m->id, at, r);
    memcpy(seed, m->image_id, 8);
    file_put64(seed + 8, at);
    return file_crc(file_crc(0, seed, 16), r, FILE_AT_CHECK);
}

/* Returns whether the body of a record is inside the file. */
static inline bool hostile_fits(const hostile_map *m, size_t at)
{
    if (m->size < 40 || at > m->size - 40) return false;
    uint64_t size = file_get32(m->bytes + at);
    return size > FILE_HEADER && ((size + 7) & ~(uint64_t)7) <= m->size - at;
}

/* Puts both checks of a record right, as for one that stands at `place`; the body's only
 * when the size shows where it ends, and when it is not one that was erased. */
static inline void hostile_seal_for(const hostile_map *m, size_t at, size_t place)
{
    unsigned char *r = m->bytes + at;
    if (m->size < 32 || at > m->size - 32) return;
    if (hostile_fits(m, at) && file_get32(r + FILE_AT_BODY_CHECK) != FILE_ERASED) {
        if (file_is_segment(r)) file_seal_segment(m->id, place, r);
        file_put32(r + FILE_AT_BODY_CHECK, file_body_check(r));
    }
    file_put32(r + FILE_AT_CHECK, hostile_check(m, place, r));
}

static inline void hostile_seal(const hostile_map *m, size_t at)
{
    hostile_seal_for(m, at, at);
}

/* Stores the checks of a log's superblock (of its fields, the writer's line and
 * checkpoints), or of an image's header. */
static inline void hostile_seal_super(hostile_map *m)
{
    unsigned char *head = m->bytes;
    if (m->size < (m->image ? (size_t)HOSTILE_IMAGE_HEADER : (size_t)HOSTILE_SUPER))
        return;
    if (!m->image) file_seal_superblock(head);
    if (m->image) file_put32(head + 32, file_crc(0, head, 24));
    if (m->image) file_put32(head + 36, file_crc(0, head + 16, 16));
}


/* ---- finding the records ---- */

static inline bool hostile_is_record(const hostile_map *m, size_t at)
{
    const unsigned char *r = m->bytes + at;
    return hostile_fits(m, at) && r[4] != 0 && (r[4] < FILE_KIND_COUNT || r[4] >= 100);
}

/* Returns the end of the record at an offset. */
static inline size_t hostile_after(const hostile_map *m, size_t at)
{
    return at + (((size_t)file_get32(m->bytes + at) + 7) & ~(size_t)7);
}

/* Finds all records: by their sizes, or on the grid of 8 bytes after invalid bytes. */
static inline void hostile_look(hostile_map *m)
{
    size_t at = m->image ? HOSTILE_IMAGE_HEADER : HOSTILE_SUPER;
    m->n = 0;
    m->end = at;
    if (m->size < at) return;
    if (m->image) memcpy(m->image_id, m->bytes + 16, 8);
    else memcpy(m->id, m->bytes + 24, 16);
    while (at + 40 <= m->size && m->n < HOSTILE_SPOTS) {
        if (!hostile_is_record(m, at)) {
            at += 8;
            continue;
        }
        m->spots[m->n++] = (uint32_t)at;
        at = hostile_after(m, at);
        m->end = at;
    }
}

static inline void hostile_seal_all(hostile_map *m)
{
    hostile_seal_super(m);
    hostile_look(m);
    for (size_t i = 0; i < m->n; i++) hostile_seal(m, m->spots[i]);
}


/* ---- numbers that break things ---- */

static inline size_t hostile_any(const hostile_map *m, uint64_t *rng)
{
    return m->n == 0 ? m->end : m->spots[test_below(rng, m->n)];
}

/* Another INDEX record, when there is one: for cycles. */
static inline size_t hostile_any_index(const hostile_map *m, uint64_t *rng)
{
    size_t from = m->n == 0 ? 0 : (size_t)test_below(rng, m->n);
    for (size_t i = 0; i < m->n; i++) {
        size_t at = m->spots[(from + i) % m->n];
        if (m->bytes[at + 4] == FILE_KIND_INDEX) return at;
    }
    return hostile_any(m, rng);
}

/* In place of `old`, which stands in the record at `at`. */
static inline uint64_t hostile_number(const hostile_map *m, uint64_t old, size_t at,
                                      uint64_t *rng)
{
    static const uint64_t numbers[] = {
        0, 1, 2, 7, 8, 31, 32, 33, 39, 40, 63, 64, 255, 256, 4096, 65535, 65536,
        0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff, 0x100000000, 0x7ff0000000000000,
        0x7ff8000000000000, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffff8,
        0xfffffffffffffffe, 0xffffffffffffffff, (uint64_t)256 << 20};
    size_t n = sizeof numbers / sizeof numbers[0];
    switch (test_below(rng, 12)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return old ^ (uint64_t)1 << test_below(rng, 64);
    case 3: return old + 8 * (1 + test_below(rng, 8));
    case 4: return m->size + 8 * test_below(rng, 3) - 8;
    case 5: return at;
    case 6: return hostile_any(m, rng);
    case 7: return hostile_any_index(m, rng);
    case 8: return hostile_any(m, rng) + 8 * (1 + test_below(rng, 4));
    case 9: return test_random(rng) >> test_below(rng, 64);
    default: return numbers[test_below(rng, n)];
    }
}

/* Replaces the number of that width (1, 2, 4 or 8 bytes) at an offset. */
static inline void hostile_put(hostile_map *m, size_t at, size_t width, size_t record,
                               uint64_t *rng)
{
    uint64_t old = 0;
    if (m->size < width || at > m->size - width) return;
    for (size_t i = width; i-- > 0;) old = old << 8 | m->bytes[at + i];
    uint64_t now = hostile_number(m, old, record, rng);
    for (size_t i = 0; i < width; i++) m->bytes[at + i] = (unsigned char)(now >> 8 * i);
}

typedef struct hostile_field {
    uint16_t at;
    uint8_t width;
} hostile_field;

#define HOSTILE_ANY_OF(table, rng) \
    ((table)[test_below((rng), sizeof(table) / sizeof((table)[0]))])


/* ---- lies in the superblock ---- */

static inline void hostile_head(hostile_map *m, uint64_t *rng)
{
    static const hostile_field of_log[] = {
        {8, 4},    {12, 4},   {16, 4},   {20, 4},   {24, 8},   {32, 8},   {40, 8},
        {48, 4},   {1024, 8}, {1024, 8}, {1024, 8}, {1088, 8}, {1088, 8}, {1096, 8},
        {1152, 8}, {1152, 8}, {1160, 8}, {1168, 8}, {1176, 8}, {1184, 4}, {1200, 8},
        {1208, 8}, {1208, 8}, {1224, 4}, {1232, 8}, {1232, 8}, {2048, 8}, {2056, 8},
        {2056, 8}, {2064, 8}, {2072, 8}, {2080, 8}, {2560, 8}, {2568, 8}, {2568, 8},
        {2576, 8}, {2584, 8}, {2592, 8}, {3072, 8}};
    static const hostile_field of_image[] = {{8, 4}, {12, 4}, {16, 8}, {24, 8}, {24, 8}};
    hostile_field f = m->image ? HOSTILE_ANY_OF(of_image, rng) : HOSTILE_ANY_OF(of_log, rng);
    hostile_put(m, f.at, f.width, f.at, rng);
    /* of this machine, as it is now */
    if (f.at == FILE_AT_UNCONFIRMED && test_one_in(rng, 2))
        memcpy(m->bytes + f.at, m->bytes + FILE_AT_WRITER, 8);
    hostile_seal_super(m);
    bool id = m->image ? f.at == 16 : f.at >= 24 && f.at < 40;
    if (id) hostile_seal_all(m);
}


/* ---- lies in a record ---- */

static inline void hostile_header(hostile_map *m, size_t at, uint64_t *rng)
{
    static const hostile_field fields[] = {{0, 4}, {0, 4},  {4, 1}, {5, 1}, {6, 1},
                                           {7, 1}, {8, 8},  {8, 8}, {8, 8}, {16, 8},
                                           {4, 1}, {24, 4}};
    static const unsigned char kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100, 200};
    hostile_field f = HOSTILE_ANY_OF(fields, rng);
    if (f.at == 4) m->bytes[at + 4] = HOSTILE_ANY_OF(kinds, rng);
    else if (f.at == FILE_AT_BODY_CHECK)
        file_put32(m->bytes + at + FILE_AT_BODY_CHECK, FILE_ERASED);
    else hostile_put(m, at + f.at, f.width, at, rng);
}

/* Changes the directory of fields, or the values after it. */
static inline void hostile_body(hostile_map *m, size_t at, size_t size, uint64_t *rng)
{
    static const unsigned char bytes[] = {0,    1,    0x1f, 0x20, 0x7f, 0x80, 0xc0, 0xed,
                                          0xf8, 0xff, '"',  '{',  '[',  ']',  '}',  '\\',
                                          '-',  '9',  ',',  ':',  ' '};
    unsigned char *body = m->bytes + at + FILE_HEADER;
    size_t room = size - 32, dir = body[0] < room ? body[0] : room;
    size_t from = (size_t)test_below(rng, room), len = room - from;
    switch (test_below(rng, 8)) {
    case 0: body[0] = (unsigned char)test_random(rng); break;
    case 1: body[0] = (unsigned char)(body[0] + test_below(rng, 3) - 1); break;
    case 2: hostile_put(m, at + FILE_HEADER + test_below(rng, dir + 1), 1, at, rng); break;
    case 3: body[test_below(rng, dir + 1)] ^= (unsigned char)(1u << test_below(rng, 8));
        break;
    case 4: hostile_put(m, at + FILE_HEADER + test_below(rng, dir + 1), 4, at, rng); break;
    case 5: memset(body + from, '[', len < 3000 ? len : 3000); break;
    case 6: body[from] ^= (unsigned char)(1u << test_below(rng, 8)); break;
    default: body[from] = HOSTILE_ANY_OF(bytes, rng); break;
    }
}

/* Changes a word of an INDEX record: in its header, or anywhere after that. */
static inline void hostile_index(hostile_map *m, size_t at, size_t size, uint64_t *rng)
{
    size_t words = (size - 32) / 4;
    size_t fixed = m->bytes[at + 5] == FILE_INDEX_FILTER ? 8 : 48;
    if (test_one_in(rng, 2) && words > fixed) words = fixed;
    size_t i = at + FILE_HEADER + 4 * (size_t)test_below(rng, words);
    size_t width = test_one_in(rng, 3) && i + 8 <= at + size ? 8 : 4;
    hostile_put(m, i, width, at, rng);
}

/* Sets an offset in a summary or a segment index to that of some INDEX record, often a
 * cycle. */
static inline void hostile_cycle(hostile_map *m, size_t at, size_t size, uint64_t *rng)
{
    size_t first = m->bytes[at + 5] == FILE_INDEX_SUMMARY ? 48 : FILE_SEGMENT_FIXED;
    size_t i = first + 8 * test_below(rng, 40);
    if (i + 8 > size) return;
    file_put64(m->bytes + at + i, test_one_in(rng, 4) ? at : hostile_any_index(m, rng));
}

/* Changes a LOST record: the former end of the file, or the zeros after it. */
static inline void hostile_lost(hostile_map *m, size_t at, uint64_t *rng)
{
    hostile_put(m, at + (test_one_in(rng, 4) ? 40 : 32), 8, at, rng);
}

/* Changes one record and seals it, mostly for its own place. */
static inline void hostile_record(hostile_map *m, uint64_t *rng)
{
    if (m->n == 0) return;
    size_t at = m->spots[test_below(rng, m->n)];
    if (!hostile_fits(m, at)) return;
    size_t size = file_get32(m->bytes + at);
    unsigned kind = m->bytes[at + 4];
    unsigned what = (unsigned)test_below(rng, 10);
    if (what < 4) hostile_header(m, at, rng);
    else if (kind == FILE_KIND_INDEX && what < 6) hostile_cycle(m, at, size, rng);
    else if (kind == FILE_KIND_INDEX && size >= 64) hostile_index(m, at, size, rng);
    else if (kind == FILE_KIND_LOST && size >= FILE_LOST_SIZE) hostile_lost(m, at, rng);
    else hostile_body(m, at, size, rng);
    hostile_seal_for(m, at, test_one_in(rng, 16) ? hostile_any(m, rng) : at);
}


/* ---- lies about which records there are ---- */

/* Puts a copy of `len` bytes in the place of `gone` others. What is after them moves, into
 * room that is made when there is some, and so does the watermark. */
static inline void hostile_splice(hostile_map *m, size_t to, size_t gone, size_t from,
                                  size_t len)
{
    size_t mark = m->image ? 24 : FILE_AT_WATERMARK, more = len > gone ? len - gone : 0;
    unsigned char *copy = (unsigned char *)malloc(len + 1), *at = m->bytes + to;
    if (copy == NULL) abort();
    memcpy(copy, m->bytes + from, len);
    if (m->end + more > m->size && m->room - m->size >= more) {
        memset(m->bytes + m->size, 0, more);
        m->size += more;
    }
    if (to <= m->size && gone + more <= m->size - to) {
        size_t kept = m->size - to - gone - more;
        memmove(at + len, at + gone, kept);
        memcpy(at, copy, len);
        memset(at + len + kept, 0, gone + more - len);
        file_put64(m->bytes + mark, file_get64(m->bytes + mark) + len - gone);
        hostile_seal_all(m);
    }
    free(copy);
}

/* Copies a record over others, before another one or after the last; or removes it. */
static inline void hostile_move(hostile_map *m, unsigned what, uint64_t *rng)
{
    size_t at = hostile_any(m, rng), to = hostile_any(m, rng);
    if (m->n == 0 || !hostile_fits(m, at)) return;
    size_t len = hostile_after(m, at) - at;
    if (len > m->size - at) return;
    if (what < 2) hostile_splice(m, to, len, at, len);
    else if (what < 3) hostile_splice(m, at, len, at, 0);
    else hostile_splice(m, test_one_in(rng, 2) ? m->end : to, 0, at, len);
}

/* Two records that follow each other change places: numbers go back. */
static inline void hostile_exchange(hostile_map *m, uint64_t *rng)
{
    if (m->n < 3) return;
    size_t i = (size_t)test_below(rng, m->n - 2);
    size_t a = m->spots[i], b = m->spots[i + 1];
    if (!hostile_fits(m, a) || !hostile_fits(m, b)) return;
    size_t len = b - a, more = ((size_t)file_get32(m->bytes + b) + 7) & ~(size_t)7;
    unsigned char *copy = (unsigned char *)malloc(len);
    if (copy == NULL) abort();
    memcpy(copy, m->bytes + a, len);
    memmove(m->bytes + a, m->bytes + b, more);
    memcpy(m->bytes + a + more, copy, len);
    free(copy);
    hostile_seal_all(m);
}

/* Truncates the file, or extends it by zeros or old bytes. */
static inline void hostile_resize(hostile_map *m, uint64_t *rng)
{
    size_t old = m->size;
    if (test_one_in(rng, 2)) {
        m->size = (size_t)test_below(rng, m->size + 1);
        return;
    }
    m->size += (size_t)test_below(rng, m->room - m->size + 1);
    memset(m->bytes + old, test_one_in(rng, 2) ? 0 : 0x2d, m->size - old);
}

static inline void hostile_scribble(hostile_map *m, uint64_t *rng)
{
    for (size_t n = 1 + test_below(rng, 8); n > 0 && m->size > 0; n--)
        m->bytes[test_below(rng, m->size)] = (unsigned char)test_random(rng);
}


/* ---- the two functions ---- */

static inline void hostile_lie(hostile_map *m, uint64_t *rng)
{
    size_t head = m->image ? HOSTILE_IMAGE_HEADER : HOSTILE_SUPER;
    unsigned what = m->size < head ? 99 : (unsigned)test_below(rng, 24);
    if (what < 12) hostile_record(m, rng);
    else if (what < 16) hostile_head(m, rng);
    else if (what < 21) hostile_move(m, what - 16, rng);
    else if (what < 22) hostile_exchange(m, rng);
    else if (what < 23) hostile_resize(m, rng);
    else hostile_scribble(m, rng);
}

static inline size_t hostile_some_lies(unsigned char *bytes, size_t size, size_t room,
                                       bool image, uint64_t *rng)
{
    static hostile_map m;
    memset(&m, 0, offsetof(hostile_map, spots));
    m.bytes = bytes;
    m.size = size;
    m.room = room;
    m.image = image;
    hostile_look(&m);
    for (uint64_t n = 1 + test_below(rng, test_one_in(rng, 2) ? 1 : 5); n > 0; n--) {
        hostile_lie(&m, rng);
        if (m.size < size) hostile_look(&m);
    }
    if (test_one_in(rng, 4)) hostile_seal_all(&m);
    return m.size;
}

/* Changes a log of `size` bytes in a buffer of `room` in one to five places, with checks
 * that hold, and returns its new size. Not for several threads at once. */
static inline size_t hostile_mutate(unsigned char *log, size_t size, size_t room,
                                    uint64_t *rng)
{
    return hostile_some_lies(log, size, room, false, rng);
}

/* The same for an image that fills `size` bytes; its size stays. */
static inline size_t hostile_mutate_image(unsigned char *image, size_t size,
                                          uint64_t *rng)
{
    return hostile_some_lies(image, size, size, true, rng);
}

/* Puts all checks of a file right that can be reached: of its superblock, and of each
 * record that is found by going from size to size, or on the grid of 8 bytes where that
 * fails. */
static inline void hostile_recheck(unsigned char *file, size_t size, bool image)
{
    static hostile_map m;
    memset(&m, 0, offsetof(hostile_map, spots));
    m.bytes = file;
    m.size = m.room = size;
    m.image = image;
    hostile_seal_all(&m);
}

#endif /* HOSTILE_H */
