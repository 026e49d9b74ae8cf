/* What tests/hostile.h takes from the library's implementation, written anew from the
 * essays of [record] and [format], so that a fuzz target need not have the
 * implementation inside; and how fuzz_log.c packs a file into an input. */

#ifndef FUZZ_FORMAT_H
#define FUZZ_FORMAT_H

#include "fuzz.h"

#define MS__HEADER      32u
#define MS__ERASED      0x44455241u
#define MS__LOST_SIZE   48u
#define MS__AT_MARK     1024u
#define MS__AT_WRITER   1152u
#define MS__AT_UNSURE   1232u
#define MS__AT_SLOTS    2048u
#define MS__SLOT_STEP   512u
#define MS__LEAF_FIXED  224u

enum { MS__KIND_INDEX = 2, MS__KIND_LOST = 8, MS__KIND_COUNT = 11 };
enum { MS__INDEX_PART = 2, MS__INDEX_LEVEL = 3 };

typedef struct ms__file_id {
    unsigned char id[16];
} ms__file_id;

static inline uint32_t ms__get32(const unsigned char *p)
{
    return (uint32_t)fuzz_get(p, 4);
}

static inline uint64_t ms__get64(const unsigned char *p) { return fuzz_get(p, 8); }
static inline void ms__put32(unsigned char *p, uint32_t n) { fuzz_put(p, 4, n); }
static inline void ms__put64(unsigned char *p, uint64_t n) { fuzz_put(p, 8, n); }

static inline uint32_t ms__crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
    return fuzz_crc(crc, p, n);
}

static inline void ms__file_id_set(ms__file_id *f, const unsigned char *id,
                                   double created)
{
    (void)created;
    memcpy(f->id, id, 16);
}

static inline uint32_t ms__log_check(const ms__file_id *f, uint64_t offset,
                                     const unsigned char *r)
{
    unsigned char at[8];
    fuzz_put(at, 8, offset);
    return fuzz_crc(fuzz_crc(fuzz_crc(0, f->id, 16), at, 8), r, 28);
}

static inline uint32_t ms__body_check(const unsigned char *r)
{
    size_t size = ((size_t)fuzz_get(r, 4) + 7) & ~(size_t)7;
    uint32_t crc = fuzz_crc(0, r + 32, size - 32);
    return crc == MS__ERASED ? crc + 1 : crc;
}


/* ---- a file as an input: what is not zero ---- */

enum { FUZZ_FILE = 65536 };  /* bytes of the largest one */

/* Takes it apart into `file`, which has FUZZ_FILE bytes of zeros. Its size. */
static inline size_t fuzz_unpack(fuzz_input *in, unsigned char *file)
{
    size_t size = 0;
    while (fuzz_left(in) > 3) {
        size_t at = (size_t)fuzz_u16(in) * 8, len = fuzz_u8(in) * (size_t)8;
        if (at + len > FUZZ_FILE) continue;
        ms_str bytes = fuzz_bytes(in, len);
        if (bytes.len > 0) memcpy(file + at, bytes.ptr, bytes.len);
        if (at + len > size) size = at + len;
    }
    return size;
}

/* Puts it together after three bytes that choose what is done with it. 0: no room. */
static inline size_t fuzz_pack(const unsigned char *file, size_t size,
                               const unsigned char *head, unsigned char *out, size_t room)
{
    size_t used = 3, at = 0;
    if (room < 3) return 0;
    memcpy(out, head, 3);
    while (at + 8 <= size) {
        size_t end, last;
        if (fuzz_get(file + at, 8) == 0) {
            at += 8;
            continue;
        }
        for (end = last = at; end + 8 <= size && end - at < 255 * 8 && end - last <= 16;
             end += 8)
            if (fuzz_get(file + end, 8) != 0) last = end;
        end = last + 8;
        if (used + 3 + (end - at) > room) return 0;
        fuzz_put(out + used, 2, at / 8);
        out[used + 2] = (unsigned char)((end - at) / 8);
        memcpy(out + used + 3, file + at, end - at);
        used += 3 + (end - at);
        at = end;
    }
    return used;
}

#endif /* FUZZ_FORMAT_H */
