/* UTF-8 by the table of Unicode's chapter 3, byte by byte: what the suites of [str], [json]
 * and [record] compare the library with. */

#ifndef UTF8_TWIN_H
#define UTF8_TWIN_H

#include "support.h"

static inline size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)((n == 2 ? 0xC0u : n == 3 ? 0xE0u : 0xF0u) | c);
    return n;
}

/* Length of the character at p, 0: none; *bad: how many bytes could have begun one. */
static inline size_t naive_character(const unsigned char *p, size_t n, size_t *bad)
{
    static const struct { unsigned char c[4][2]; size_t len; } rows[] = {
        {{{0x00, 0x7f}}, 1},
        {{{0xc2, 0xdf}, {0x80, 0xbf}}, 2},
        {{{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}, 3},
        {{{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}, 3},
        {{{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}, 3},
        {{{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}, 3},
        {{{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}, 4},
        {{{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}, 4},
        {{{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}, 4},
    };
    *bad = 1;
    for (size_t r = 0; r < COUNT(rows); r++) {
        size_t k = 0;
        while (k < rows[r].len && k < n && p[k] >= rows[r].c[k][0] &&
               p[k] <= rows[r].c[k][1])
            k++;
        if (k == rows[r].len) return k;
        if (k > *bad) *bad = k;
    }
    return 0;
}

static inline bool naive_utf8(const unsigned char *p, size_t n, size_t *bad)
{
    size_t skip, len;
    for (*bad = 0; *bad < n; *bad += len)
        if ((len = naive_character(p + *bad, n - *bad, &skip)) == 0) return false;
    return true;
}

/* Text with U+FFFD where it is not UTF-8. */
static inline size_t naive_repair(ms_str text, char *out)
{
    size_t used = 0, bad, len;
    for (size_t i = 0; i < text.len; i += len != 0 ? len : bad) {
        const char *at = text.ptr + i;
        len = naive_character((const unsigned char *)at, text.len - i, &bad);
        memcpy(out + used, len != 0 ? at : "\xef\xbf\xbd", len != 0 ? len : 3);
        used += len != 0 ? len : 3;
    }
    return used;
}

#endif /* UTF8_TWIN_H */
