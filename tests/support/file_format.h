/* What a test knows of the bytes of a log file and of records, written anew from the essays
 * of [record] and [file-format]: numbers, checks, places. A test that forges or judges a
 * file does so by this, not by the functions that it tries. All numbers are
 * little-endian. */

#ifndef FILE_FORMAT_H
#define FILE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FILE_HEADER          40u         /* bytes before the body of a record */
#define FILE_AT_BODY_CHECK   32u
#define FILE_AT_CHECK        36u
#define FILE_ERASED          0x44455241u /* the body's check of a redacted record */
#define FILE_VERSION         3u
#define FILE_SUPERBLOCK      8192u       /* two pages: the fixed part stands in both */
#define FILE_SUPERBLOCK_COPY 4096u
#define FILE_FIXED           76u         /* bytes of the fixed part */
#define FILE_AT_WATERMARK    1024u
#define FILE_AT_WRITER       1152u
#define FILE_AT_UNCONFIRMED  1232u
#define FILE_AT_CHECKPOINTS  2048u
#define FILE_CHECKPOINT_STEP 512u
#define FILE_SEGMENT_FIXED   232u
#define FILE_LOST_SIZE       56u

enum {
    FILE_KIND_MESSAGE = 1,
    FILE_KIND_INDEX = 2,
    FILE_KIND_AMEND = 3,
    FILE_KIND_HIDE = 4,
    FILE_KIND_LOST = 8,
    FILE_KIND_COUNT = 11
};
enum { FILE_INDEX_SEGMENT = 1, FILE_INDEX_FILTER = 2, FILE_INDEX_SUMMARY = 3 };

static inline uint64_t file_get(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    while (n-- > 0) v = v << 8 | p[n];
    return v;
}

static inline void file_put(unsigned char *p, size_t n, uint64_t v)
{
    for (size_t i = 0; i < n; i++, v >>= 8) p[i] = (unsigned char)v;
}

static inline uint32_t file_get32(const unsigned char *p) { return (uint32_t)file_get(p, 4); }
static inline uint64_t file_get64(const unsigned char *p) { return file_get(p, 8); }
static inline void file_put32(unsigned char *p, uint32_t v) { file_put(p, 4, v); }
static inline void file_put64(unsigned char *p, uint64_t v) { file_put(p, 8, v); }
static inline size_t file_padded(size_t n) { return (n + 7) & ~(size_t)7; }

/* CRC-32C (Castagnoli), as in RFC 3720 B.4. */
static inline uint32_t file_crc(uint32_t crc, const unsigned char *p, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++) v = v >> 1 ^ (v & 1 ? 0x82F63B78u : 0);
        table[i] = v;
    }
    crc = ~crc;
    for (size_t i = 0; i < n; i++) crc = crc >> 8 ^ table[(crc ^ p[i]) & 0xff];
    return ~crc;
}

/* Returns the header check of a record at an offset of a file with this id (16 bytes). */
static inline uint32_t file_check(const unsigned char *id, uint64_t offset,
                                  const unsigned char *r)
{
    unsigned char at[8];
    file_put64(at, offset);
    return file_crc(file_crc(file_crc(0, id, 16), at, 8), r, FILE_AT_CHECK);
}

static inline uint32_t file_body_check(const unsigned char *r)
{
    uint32_t crc = file_crc(0, r + FILE_HEADER,
                            file_padded(file_get32(r)) - FILE_HEADER);
    return crc == FILE_ERASED ? crc + 1 : crc;
}

/* Puts right the checks inside a segment index: of each block, and of what is before the
 * blocks. Where its counts do not give its size it has none. */
static inline void file_seal_segment(const unsigned char *id, uint64_t offset,
                                     unsigned char *r)
{
    unsigned char place[8];
    uint64_t lists = file_get32(r + 200);
    uint64_t fixed = FILE_SEGMENT_FIXED + 8 * file_get(r + 104, 4);
    uint64_t buckets = file_get32(r + 216), width = file_get32(r + 220);
    uint64_t changed = file_get32(r + 228);
    if (buckets > 26 || width > 4) return;
    uint64_t room = lists * 12 + file_get(r + 140, 4) * 4 + ((uint64_t)4 << buckets) + 8 +
                    file_get(r + 204, 4) * width;
    uint64_t blocks = (room + 4095) / 4096;
    fixed += changed == UINT32_MAX ? 0 : changed * 2;
    if (fixed + 4 * blocks + 4 + room != file_get32(r)) return;
    unsigned char *checks = r + fixed, *arrays = checks + 4 * blocks + 4;
    for (uint64_t at = 0; at < room; at += 4096, checks += 4)
        file_put32(checks, file_crc(0, arrays + at,
                                    (size_t)(room - at < 4096 ? room - at : 4096)));
    file_put64(place, offset);
    uint32_t seed = file_crc(file_crc(0, id, 16), place, 8);
    file_put32(checks, file_crc(seed, r + FILE_HEADER, (size_t)(checks - r) - FILE_HEADER));
}

static inline bool file_is_segment(const unsigned char *r)
{
    return r[4] == FILE_KIND_INDEX && r[5] == FILE_INDEX_SEGMENT &&
           file_get32(r) >= FILE_SEGMENT_FIXED;
}

/* Puts all checks on a record. */
static inline void file_seal(const unsigned char *id, uint64_t offset, unsigned char *r)
{
    if (file_is_segment(r)) file_seal_segment(id, offset, r);
    file_put32(r + FILE_AT_BODY_CHECK, file_body_check(r));
    file_put32(r + FILE_AT_CHECK, file_check(id, offset, r));
}

/* The checks of the superblock: of its fields, of the writer's line and checkpoints. */
static inline void file_seal_superblock(unsigned char *super)
{
    file_put32(super + 52, file_crc(0, super, 52));
    file_put32(super + FILE_AT_WRITER + 36, file_crc(0, super + FILE_AT_WRITER, 36));
    for (size_t i = 0; i < 2; i++) {
        unsigned char *checkpoint = super + FILE_AT_CHECKPOINTS +
                                    i * FILE_CHECKPOINT_STEP;
        if (file_get64(checkpoint) != 0)
            file_put32(checkpoint + 40, file_crc(0, checkpoint, 40));
    }
}

static inline uint64_t file_rotl(uint64_t v, unsigned by) { return v << by | v >> (64 - by); }

static inline void file_sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = file_rotl(v[1], 13) ^ v[0];
    v[3] = file_rotl(v[3], 16) ^ v[2];
    v[0] = file_rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = file_rotl(v[1], 17) ^ v[2];
    v[3] = file_rotl(v[3], 21) ^ v[0];
    v[2] = file_rotl(v[2], 32);
}

/* SipHash-1-3 with the salt in the second word of the key: how names are hashed. */
static inline uint64_t file_hash(const uint64_t key[2], uint64_t salt, const char *text,
                                 size_t n)
{
    uint64_t k1 = key[1] ^ salt;
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *p = (const unsigned char *)text;
    for (size_t at = 0; at <= n; at += 8) {
        size_t left = n - at < 8 ? n - at : 8;
        uint64_t word = file_get(p + at, left);
        if (left < 8) word |= (uint64_t)n << 56;
        v[3] ^= word;
        file_sip_round(v);
        v[0] ^= word;
        if (left < 8) break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) file_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
