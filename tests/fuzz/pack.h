/* How fuzz_log.c packs a file into an input. */

#ifndef FUZZ_PACK_H
#define FUZZ_PACK_H

#include "fuzz.h"

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
        if (file_get64(file + at) == 0) {
            at += 8;
            continue;
        }
        for (end = last = at; end + 8 <= size && end - at < 255 * 8 && end - last <= 16;
             end += 8)
            if (file_get64(file + end) != 0) last = end;
        end = last + 8;
        if (used + 3 + (end - at) > room) return 0;
        file_put(out + used, 2, at / 8);
        out[used + 2] = (unsigned char)((end - at) / 8);
        memcpy(out + used + 3, file + at, end - at);
        used += 3 + (end - at);
        at = end;
    }
    return used;
}

#endif /* FUZZ_PACK_H */
