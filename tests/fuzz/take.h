/* Takes the bytes of an input apart. At its end everything is 0. */

#ifndef FUZZ_TAKE_H
#define FUZZ_TAKE_H

#include "support.h"

typedef struct fuzz_input {
    const unsigned char *at, *end;
} fuzz_input;

static inline size_t fuzz_left(const fuzz_input *in)
{
    return (size_t)(in->end - in->at);
}

static inline unsigned fuzz_u8(fuzz_input *in)
{
    return in->at < in->end ? *in->at++ : 0u;
}

static inline unsigned fuzz_u16(fuzz_input *in)
{
    unsigned low = fuzz_u8(in);
    return low | fuzz_u8(in) << 8;
}

/* 0 to n - 1, n at most 256. */
static inline unsigned fuzz_below(fuzz_input *in, unsigned n) { return fuzz_u8(in) % n; }

/* At most so many bytes. */
static inline ms_str fuzz_bytes(fuzz_input *in, size_t most)
{
    size_t len = fuzz_left(in) < most ? fuzz_left(in) : most;
    ms_str s = ms_str_n((const char *)in->at, len);
    in->at += len;
    return s;
}

/* A text: one byte of length, then its bytes. */
static inline ms_str fuzz_text(fuzz_input *in) { return fuzz_bytes(in, fuzz_u8(in)); }

#endif /* FUZZ_TAKE_H */
