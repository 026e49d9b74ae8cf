
/* ==== [str] strings, UTF-8, integers as text ==========================================
 * Repair replaces invalid UTF-8 as the WHATWG decoder does: each maximal run of bytes
 * that could begin a character, and each other byte, becomes one U+FFFD.
 * ================================================================================== */

MS_API ms_str ms_str_of(const char *text)
{
    return ms_str_n(text, text ? strlen(text) : 0);
}

static ms_str ms__absent(void) { return ms_str_n(NULL, 0); }
static bool ms__is_empty(ms_str s) { return s.len == 0; }

MS_API MS__ONCE bool ms_str_equal(ms_str a, ms_str b)
{
    if (!a.ptr || !b.ptr) return !a.ptr && !b.ptr;
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ---- Names and other short texts have 8 to 16 bytes mostly: two words, which may
 * overlap, are a third of the instructions of a call. */

static bool ms__is_short(size_t n) { return !MS__SMALL && n - 8 <= 8; }

static void ms__text_copy(unsigned char *to, ms_str s)
{
    uint64_t first, last;
    if (ms__is_short(s.len)) {
        memcpy(&first, s.ptr, 8);
        memcpy(&last, s.ptr + s.len - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + s.len - 8, &last, 8);
    } else if (s.len > 0) {
        memcpy(to, s.ptr, s.len);
    }
}

/* Returns whether two texts, neither of them absent, are equal. */
static bool ms__same_name(ms_str a, ms_str b)
{
    uint64_t words[4];
    if (a.len != b.len) return false;
    if (!ms__is_short(a.len)) return a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0;
    memcpy(&words[0], a.ptr, 8);
    memcpy(&words[1], b.ptr, 8);
    memcpy(&words[2], a.ptr + a.len - 8, 8);
    memcpy(&words[3], b.ptr + a.len - 8, 8);
    return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
}

static bool ms__starts_with(ms_str s, ms_str prefix)
{
    return s.len >= prefix.len &&
           (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static MS__ONCE int ms__str_order(ms_str a, ms_str b)
{
    size_t n = ms__min(a.len, b.len);
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

MS_API ms_value ms_text_n(ms_str text)
{
    ms_value v;
    v.text = text;
    v.json = false;
    return v;
}

MS_API ms_value ms_text(const char *text) { return ms_text_n(ms_str_of(text)); }

MS_API ms_value ms_json(ms_str json)
{
    ms_value v = ms_text_n(json);
    v.json = true;
    return v;
}

/* Returns the length of the character at p, 1 to 4; 0: it is invalid, and one U+FFFD
 * replaces *bad bytes. n is at least 1. */
static unsigned ms__utf8_char(const unsigned char *p, size_t n, unsigned *bad)
{
    unsigned c = p[0], len, low = 0x80, high = 0xBF;
    *bad = 1;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) len = 2;
    else if (c >= 0xE0 && c <= 0xEF) len = 3;
    else if (c >= 0xF0 && c <= 0xF4) len = 4;
    else return 0;
    if (c == 0xE0) low = 0xA0;       /* no overlong forms */
    else if (c == 0xED) high = 0x9F; /* no surrogates */
    else if (c == 0xF0) low = 0x90;
    else if (c == 0xF4) high = 0x8F; /* up to U+10FFFF */
    for (unsigned i = 1; i < len; i++) {
        if (i >= n || p[i] < low || p[i] > high) {
            *bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

/* ---- Sixteen bytes at a time. */

#if MS__NEON
/* Returns the index of the first byte that is not zero; 16: all are zero. */
static unsigned ms__neon_first(uint8x16_t odd)
{
    uint8x8_t halves = vshrn_n_u16(vreinterpretq_u16_u8(vcgtq_u8(odd, vdupq_n_u8(0))), 4);
    uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(halves), 0);
    return bits ? (unsigned)__builtin_ctzll(bits) / 4 : 16;
}
#endif

#if MS__SSE2
/* Returns the index of the first byte whose high bit is set; 16: no bit is. */
static unsigned ms__sse2_first(__m128i odd)
{
    unsigned bits = (unsigned)_mm_movemask_epi8(odd);
    return bits ? (unsigned)__builtin_ctz(bits) : 16;
}

static __m128i ms__sse2_load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
#endif

#define MS__BY_16 (MS__SSE2 || MS__NEON)

#if MS__BY_16
/* Counts the bytes, of 16, before the first one that is not ASCII. */
static unsigned ms__ascii_16(const unsigned char *p)
{
#if MS__SSE2
    return ms__sse2_first(ms__sse2_load(p));
#else
    return ms__neon_first(vandq_u8(vld1q_u8(p), vdupq_n_u8(0x80)));
#endif
}

/* Counts the bytes, of 16, before the first quote, backslash, control character or byte
 * that is not ASCII. */
static unsigned ms__plain_16(const unsigned char *p)
{
#if MS__SSE2
    __m128i v = ms__sse2_load(p); /* signed: bytes that are not ASCII are below, too */
    __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                 _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    return ms__sse2_first(_mm_or_si128(marks, _mm_cmplt_epi8(v, _mm_set1_epi8(0x20))));
#else
    uint8x16_t v = vld1q_u8(p);
    uint8x16_t quote = vceqq_u8(v, vdupq_n_u8('"')), high = vcgeq_u8(v, vdupq_n_u8(0x80));
    uint8x16_t marks = vorrq_u8(quote, vceqq_u8(v, vdupq_n_u8('\\')));
    uint8x16_t ends = vorrq_u8(high, vcltq_u8(v, vdupq_n_u8(0x20)));
    return ms__neon_first(vorrq_u8(marks, ends));
#endif
}
#endif

#if MS__SSE2
/* Counts the bytes before the first 64 with one that is not ASCII. */
static size_t ms__ascii_64s(const unsigned char *p, size_t n)
{
    size_t i = 0;
    for (; n - i >= 64; i += 64) {
        __m128i a = _mm_or_si128(ms__sse2_load(p + i), ms__sse2_load(p + i + 16));
        __m128i b = _mm_or_si128(ms__sse2_load(p + i + 32), ms__sse2_load(p + i + 48));
        if (_mm_movemask_epi8(_mm_or_si128(a, b)) != 0) break;
    }
    return i;
}
#endif

/* Returns whether n < 16 bytes are ASCII. Overlapping loads read all of them. */
static bool ms__ascii_few(const unsigned char *p, size_t n)
{
    const uint64_t high = 0x8080808080808080u;
    uint64_t first = 0, last = 0;
    if (n >= 8) {
        memcpy(&first, p, 8);
        memcpy(&last, p + n - 8, 8);
        return ((first | last) & high) == 0;
    }
    if (n >= 4) {
        memcpy(&first, p, 4);
        memcpy(&last, p + n - 4, 4);
        return ((first | last) & high) == 0;
    }
    unsigned char seen = 0;
    for (size_t i = 0; i < n; i++) seen |= p[i];
    return seen < 0x80;
}

/* Counts the bytes before the first that is not ASCII. */
static size_t ms__ascii_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    if (n < 16 && ms__ascii_few(p, n)) return n;
#if MS__SSE2
    i = ms__ascii_64s(p, n);
#endif
#if MS__BY_16
    for (; n - i >= 16; i += 16) {
        unsigned run = ms__ascii_16(p + i);
        if (run < 16) return i + run;
    }
    if (n >= 16 && ms__ascii_16(p + n - 16) == 16) return n; /* overlaps the last ones */
#else
    for (uint64_t w; n - i >= 8; i += 8) {
        memcpy(&w, p + i, 8);
        if ((w & 0x8080808080808080u) != 0) break;
    }
#endif
    while (i < n && p[i] < 0x80) i++;
    return i;
}

MS_API bool ms_utf8_check(ms_str s, size_t *bad)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    for (size_t i = 0; i < s.len;) {
        unsigned skip, len;
        i += ms__ascii_run(p + i, s.len - i);
        if (i == s.len) break;
        len = ms__utf8_char(p + i, s.len - i, &skip);
        if (len == 0) {
            if (bad) *bad = i;
            return false;
        }
        i += len;
    }
    return true;
}

/* Copies s with U+FFFD in place of invalid bytes; out NULL: only counts. Returns the
 * length, at most 3 s.len. */
static size_t ms__utf8_repair(ms_str s, char *out)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        unsigned bad, len = ms__utf8_char(p + i, s.len - i, &bad);
        if (len == 0) {
            if (out) memcpy(out + n, "\xEF\xBF\xBD", 3);
            n += 3;
            i += bad;
        } else {
            if (out) memcpy(out + n, s.ptr + i, len);
            n += len;
            i += len;
        }
    }
    return n;
}

/* Writes a number, without a NUL; returns its length, at most 20. */
static MS__ONCE size_t ms__u64_write(uint64_t v, char *out)
{
    char digits[20];
    size_t n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    for (size_t i = 0; i < n; i++) out[i] = digits[n - 1 - i];
    return n;
}

enum { MS__OWN_ID = 5 + 20 }; /* bytes of the longest */

/* Writes the id of a call without one, whose message has that number, to `out`. */
static ms_str ms__own_id(uint64_t seq, char *out)
{
    memcpy(out, "call_", 5);
    return ms_str_n(out, 5 + ms__u64_write(seq, out + 5));
}
