/* Random JSON texts, one change after the other in them, for suites that compare readings
 * and writings of a text. */

#ifndef JSON_MAKER_H
#define JSON_MAKER_H

#include "support.h"
#include "utf8_twin.h"

enum { TEXT_MAX = 16384 };

typedef struct maker {
    uint64_t random;
    size_t len;
    char bytes[TEXT_MAX];
} maker;

static inline uint64_t below(maker *m, uint64_t n)
{
    return test_below(&m->random, n);
}

/* Adds bytes. A text that becomes too long is truncated, and thereby invalid. */
static inline void add(maker *m, const char *bytes, size_t len)
{
    if (len > TEXT_MAX - m->len) len = TEXT_MAX - m->len;
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static inline void add_text(maker *m, const char *bytes)
{
    add(m, bytes, strlen(bytes));
}

static inline void make_space(maker *m)
{
    if (below(m, 4) != 0) return;
    for (uint64_t n = below(m, 4); n > 0; n--) add(m, &" \t\n\r"[below(m, 4)], 1);
}

static inline void make_escape(maker *m, uint32_t unit)
{
    char text[8];
    unit &= 0xFFFF;
    snprintf(text, sizeof text, below(m, 2) ? "\\u%04x" : "\\u%04X", (unsigned)unit);
    add(m, text, 6);
}

/* One code point or escape; now and then one that is not allowed. */
static inline void make_character(maker *m)
{
    static const char *const escapes[] = {"\\\"", "\\\\", "\\/", "\\b",
                                          "\\f",  "\\n",  "\\r", "\\t"};
    char utf8[4];
    uint32_t c = (uint32_t)below(m, 0x10F800);
    if (c >= 0xD800) c += 0x800; /* anything but surrogates */
    switch (below(m, 10)) {
    case 0: add_text(m, escapes[below(m, 8)]); break;
    case 1: make_escape(m, c < 0x10000 ? c : below(m, 40) ? 0x20 + c % 0x60 : 0); break;
    case 2:
        make_escape(m, 0xD800 + (uint32_t)below(m, 0x400));
        if (below(m, 100) != 0) make_escape(m, 0xDC00 + (uint32_t)below(m, 0x400));
        break;
    case 3: add(m, utf8, put_utf8(utf8, 0x80 + c % 0x780)); break;
    case 4: add(m, utf8, put_utf8(utf8, c < 0x80 ? c | 0x60 : c)); break;
    default: add(m, utf8, put_utf8(utf8, 'a' + c % 26));
    }
    if (below(m, 2000) == 0) add(m, &"\x80\xbf\xc3\xe2\xed\xf0\xf4\xff"[below(m, 8)], 1);
}

static inline void make_string(maker *m)
{
    add_text(m, "\"");
    for (uint64_t n = below(m, below(m, 10) ? 8 : 60); n > 0; n--) make_character(m);
    add_text(m, "\"");
}

/* Names come often from a short list, one of them spelled in two ways. */
static inline void make_name(maker *m)
{
    static const char *const names[] = {"\"a\"", "\"b\"", "\"\\u0061\"", "\"\"",
                                        "\"ab\""};
    if (below(m, 2)) add_text(m, names[below(m, 5)]);
    else make_string(m);
}

static inline void make_digits(maker *m, uint64_t n)
{
    while (n-- > 0) add(m, &"0123456789"[below(m, 10)], 1);
}

static inline void make_number(maker *m)
{
    static const char *const edges[] = {
        "0", "-0", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e400",
        "-1E+999", "1e-400", "5e-324", "1.7976931348623157e308",
        "1.7976931348623159e308"};
    if (below(m, 6) == 0) {
        add_text(m, edges[below(m, COUNT(edges))]);
        return;
    }
    if (below(m, 3) == 0) add_text(m, "-");
    if (below(m, 8) == 0) {
        add_text(m, "0");
    } else {
        add(m, &"123456789"[below(m, 9)], 1);
        make_digits(m, below(m, below(m, 3) ? 4 : 24));
    }
    if (below(m, 2)) {
        add_text(m, ".");
        make_digits(m, 1 + below(m, below(m, 50) ? 6 : 900));
    }
    if (below(m, 3) == 0) {
        static const char *const marks[] = {"e", "E", "e+", "E+", "e-", "E-"};
        add_text(m, marks[below(m, 6)]);
        make_digits(m, 1 + below(m, 3));
    }
}

static inline void make_value(maker *m, unsigned depth)
{
    uint64_t kind = below(m, depth < 6 ? 9 : 5);
    make_space(m);
    if (kind == 0) {
        add_text(m, below(m, 2) ? "true" : below(m, 2) ? "false" : "null");
    } else if (kind < 3) {
        make_number(m);
    } else if (kind < 5) {
        make_string(m);
    } else {
        bool object = kind < 7;
        add_text(m, object ? "{" : "[");
        for (uint64_t n = below(m, 5), i = 0; i < n; i++) {
            if (i > 0) add_text(m, ",");
            make_space(m);
            if (object) {
                make_name(m);
                make_space(m);
                add_text(m, ":");
            }
            make_value(m, depth + 1);
        }
        make_space(m);
        add_text(m, object ? "}" : "]");
    }
    make_space(m);
}

/* Up to 700 arrays and objects around a value, often about as many as are allowed. */
static inline void make_deep(maker *m)
{
    bool object[700];
    size_t n = below(m, 3) ? 500 + (size_t)below(m, 20) : (size_t)below(m, 700);
    for (size_t i = 0; i < n; i++) {
        object[i] = below(m, 4) == 0;
        add_text(m, object[i] ? "{\"k\":" : "[");
    }
    make_value(m, (unsigned)below(m, 7));
    while (n-- > 0) add_text(m, object[n] ? "}" : "]");
}

static inline void make_text(maker *m)
{
    m->len = 0;
    if (below(m, 300) == 0) make_deep(m);
    else make_value(m, 0);
}

/* One change: a bit, a byte, a piece out, a piece in, a piece twice, the end off. */
static inline void mutate(maker *m)
{
    static const char likely[] = "[]{}\",:\\0123456789-+.eEutfn \n"
                                 "\x80\xc3\xe2\xef\xff\x1f"; /* and NUL */
    char piece[32];
    size_t at = (size_t)below(m, m->len + 1), n = (size_t)below(m, 8);
    if (n > m->len - at) n = m->len - at;
    switch (below(m, 6)) {
    case 0: if (n > 0) m->bytes[at] = (char)(m->bytes[at] ^ (1 << below(m, 8))); return;
    case 1: if (n > 0) m->bytes[at] = likely[below(m, sizeof likely)]; return;
    case 2: break;
    case 3:
        for (size_t i = 0; i < 2; i++) piece[i] = likely[below(m, sizeof likely)];
        if (m->len + 2 > TEXT_MAX) return;
        memmove(m->bytes + at + 2, m->bytes + at, m->len - at);
        memcpy(m->bytes + at, piece, 2);
        m->len += 2;
        return;
    case 4:
        if (m->len + n > TEXT_MAX) return;
        memmove(m->bytes + at + n, m->bytes + at, m->len - at);
        m->len += n;
        return;
    default: if (below(m, 4) == 0) m->len = at; return;
    }
    memmove(m->bytes + at, m->bytes + at + n, m->len - at - n);
    m->len -= n;
}

#endif /* JSON_MAKER_H */
