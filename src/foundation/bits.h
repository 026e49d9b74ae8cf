
/* ==== [bits] integers, bytes, checksum, hash =========================================
 * Stored integers are little-endian. They are read byte by byte, or by a copy that
 * compilers turn into one load; the library never writes a struct as it lies in memory.
 *
 * The checksum is CRC32C (Castagnoli, reflected, polynomial 0x82F63B78). It detects every
 * burst of up to 32 bits and, in up to 256 MiB, every 1 to 3 flipped bits. Processors
 * have an instruction for it; a table of 256 words serves elsewhere.
 *
 * The hash is SipHash-1-3: fast on short strings, and keyed, so that no caller can choose
 * locations that collide.
 * ================================================================================== */

static inline uint32_t ms__get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint64_t ms__get64(const unsigned char *p)
{
    return (uint64_t)ms__get32(p) | (uint64_t)ms__get32(p + 4) << 32;
}

static void ms__put32(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    p[2] = (unsigned char)(v >> 16);
    p[3] = (unsigned char)(v >> 24);
}

static void ms__put64(unsigned char *p, uint64_t v)
{
    ms__put32(p, (uint32_t)v);
    ms__put32(p + 4, (uint32_t)(v >> 32));
}

/* A live word of a log is 8 bytes in a page that processes share. A 32-bit host loads the
 * low half: it cannot map a file of 4 GiB. It stores the high half first. */
static MS__UNUSED uint64_t ms__load_mark(const unsigned char *p)
{
    unsigned char bytes[8] = {0};
    void *word = ms__load_ptr((void *const *)(const void *)p);
    memcpy(bytes, &word, sizeof word);
    return ms__get64(bytes);
}

static MS__UNUSED void ms__store_mark(unsigned char *p, uint64_t v)
{
    unsigned char bytes[8];
    void *word;
    ms__put64(bytes, v);
    memcpy(&word, bytes, sizeof word);
    if (sizeof word < 8) memcpy(p + 4, bytes + 4, 4);
    ms__store_ptr((void **)(void *)p, word);
}

static size_t ms__min(size_t a, size_t b) { return a < b ? a : b; }
static uint64_t ms__align8(uint64_t n) { return (n + 7) & ~(uint64_t)7; }

/* The check of a byte is the exclusive or of the checks of its bits. */
#define MS__CRC1(i)                                                               \
    (((i)&1 ? 0xf26b8303 : 0u) ^ ((i)&2 ? 0xe13b70f7 : 0u) ^                      \
     ((i)&4 ? 0xc79a971f : 0u) ^ ((i)&8 ? 0x8ad958cf : 0u) ^                      \
     ((i)&16 ? 0x105ec76f : 0u) ^ ((i)&32 ? 0x20bd8ede : 0u) ^                    \
     ((i)&64 ? 0x417b1dbc : 0u) ^ ((i)&128 ? 0x82f63b78 : 0u))
#define MS__CRC4(i) MS__CRC1(i), MS__CRC1(i + 1), MS__CRC1(i + 2), MS__CRC1(i + 3)
#define MS__CRC16(i) MS__CRC4(i), MS__CRC4(i + 4), MS__CRC4(i + 8), MS__CRC4(i + 12)
#define MS__CRC64(i) MS__CRC16(i), MS__CRC16(i + 16), MS__CRC16(i + 32), MS__CRC16(i + 48)

/* With -Os the table has only entries for the highest four bits of a byte. */
#if MS__SMALL
#define MS__CRC_HIGH(i) \
    MS__CRC1(i), MS__CRC1(i + 16), MS__CRC1(i + 32), MS__CRC1(i + 48)
static const uint32_t ms__crc_table[16] = {MS__CRC_HIGH(0), MS__CRC_HIGH(64),
                                           MS__CRC_HIGH(128), MS__CRC_HIGH(192)};
#else
static const uint32_t ms__crc_table[256] = {MS__CRC64(0), MS__CRC64(64), MS__CRC64(128),
                                            MS__CRC64(192)};
#endif

static uint32_t ms__crc32c_table(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
#if MS__SMALL
        crc = crc >> 4 ^ ms__crc_table[crc & 15];
        crc = crc >> 4 ^ ms__crc_table[crc & 15];
#else
        crc = crc >> 8 ^ ms__crc_table[crc & 0xff];
#endif
    }
    return ~crc;
}

#if MS__CRC_X86
/* x to the power 256 i - 33 modulo the polynomial, for i from 1: multiplying a check by
 * it, and reducing the product, appends 32 i zero bytes. */
static const uint32_t ms__crc_powers[64] = {
    0xba4fc28e, 0x9e4addf8, 0x0715ce53, 0x0d3b6092, 0x878a92a7, 0xab7aff2a,
    0x83348832, 0xb9e02b86, 0xb6dd949b, 0xbac2fd7b, 0xce7f39f4, 0xd270f1a2,
    0x2b3cac5d, 0x1b03397f, 0xb3e32c28, 0xdd7e3b0c, 0x10746f3c, 0x271d9844,
    0x93a5f730, 0x6b749fb2, 0xcec3662e, 0xe6fc4e6a, 0xb0cd4768, 0xd7a4825c,
    0x0167d312, 0x26f6a60a, 0x98d8d9cb, 0x68bce87a, 0x6956fc3b, 0x3771e98f,
    0x2178513a, 0x170076fa, 0x6f345e45, 0xff0dba97, 0xf872e54c, 0x86d8e4d2,
    0x5bb8f1bc, 0xb3af077a, 0xca6ef3ac, 0xdd66cbbb, 0xe9e28eb4, 0xc9c8b782,
    0x93e106a4, 0xd813b325, 0x2342001e, 0x6d9a4957, 0xd2c3ed1a, 0x9ef68d35,
    0xf2271e60, 0x2664fd8b, 0x02ee03b2, 0x363bd6b3, 0x5fabe670, 0x00bcf5f6,
    0x17f27698, 0xaa7c7ad5, 0xded288f8, 0x6d390dec, 0x6353c1cc, 0xf48642e9,
    0xdd35bc8d, 0x9a5ede41, 0x45cddf4e, 0xa51b6135};

typedef long long ms__v2di __attribute__((vector_size(16)));

/* Appends n zero bytes, a multiple of 32, to a check that is not inverted. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t ms__crc_shift(uint64_t crc,
                                                                      size_t n)
{
    ms__v2di a = {(long long)crc, 0}, b = {(long long)ms__crc_powers[n / 32 - 1], 0};
    ms__v2di product = __builtin_ia32_pclmulqdq128(a, b, 0);
    return __builtin_ia32_crc32di(0, (unsigned long long)product[0]);
}

static uint64_t ms__crc_word(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* The instruction takes 8 bytes and returns its result three cycles later. So three
 * parts, each a multiple of 32 bytes, are computed side by side and joined: 700 bytes
 * take half the time. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t
ms__crc32c_x86(uint32_t crc, const unsigned char *p, size_t n)
{
    uint64_t c = ~crc;
    while (n >= 192) {
        size_t part = n / 96 < 32 ? n / 96 * 32 : 1024;
        uint64_t d = 0, e = 0;
        for (size_t i = 0; i < part; i += 8) {
            c = __builtin_ia32_crc32di(c, ms__crc_word(p + i));
            d = __builtin_ia32_crc32di(d, ms__crc_word(p + part + i));
            e = __builtin_ia32_crc32di(e, ms__crc_word(p + 2 * part + i));
        }
        c = ms__crc_shift(c, 2 * part) ^ ms__crc_shift(d, part) ^ e;
        p += 3 * part;
        n -= 3 * part;
    }
    for (; n >= 8; p += 8, n -= 8) c = __builtin_ia32_crc32di(c, ms__crc_word(p));
    uint32_t c32 = (uint32_t)c;
    for (; n > 0; p++, n--) c32 = __builtin_ia32_crc32qi(c32, *p);
    return ~c32;
}

static bool ms__crc_fast(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* Continues crc over an 8-byte number and the first 36 bytes of a record, without loops:
 * a log computes this for each record that it reads. */
__attribute__((target("sse4.2,pclmul"))) static MS__UNUSED uint32_t
ms__crc_header_x86(uint32_t crc, uint64_t number, const unsigned char *r)
{
    uint64_t c = __builtin_ia32_crc32di(~crc, number);
    uint32_t last;
    c = __builtin_ia32_crc32di(c, ms__crc_word(r));
    c = __builtin_ia32_crc32di(c, ms__crc_word(r + 8));
    c = __builtin_ia32_crc32di(c, ms__crc_word(r + 16));
    c = __builtin_ia32_crc32di(c, ms__crc_word(r + 24));
    memcpy(&last, r + 32, 4);
    return ~(uint32_t)__builtin_ia32_crc32si((uint32_t)c, last);
}
#endif

/* Continues the check of the bytes before (0: none). */
static uint32_t ms__crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
#if MS__CRC_X86
    if (ms__crc_fast()) return ms__crc32c_x86(crc, p, n);
#elif MS__CRC_ARM
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) crc = __crc32cd(crc, ms__get64(p));
    for (; n > 0; p++, n--) crc = __crc32cb(crc, *p);
    return ~crc;
#endif
    return ms__crc32c_table(crc, p, n);
}

static uint64_t ms__rotl(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static void ms__sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = ms__rotl(v[1], 13) ^ v[0];
    v[3] = ms__rotl(v[3], 16) ^ v[2];
    v[0] = ms__rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = ms__rotl(v[1], 17) ^ v[2];
    v[3] = ms__rotl(v[3], 21) ^ v[0];
    v[2] = ms__rotl(v[2], 32);
}

/* Hashes n bytes. Different salts give independent hashes of them. */
static uint64_t ms__hash(const uint64_t key[2], uint64_t salt, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    uint64_t v[4];
    v[0] = key[0] ^ 0x736f6d6570736575u;
    v[1] = (key[1] ^ salt) ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u;
    v[3] = (key[1] ^ salt) ^ 0x7465646279746573u;
    uint64_t last = (uint64_t)n << 56;
    size_t words = n / 8;
    for (size_t i = 0; i < n % 8; i++) last |= (uint64_t)p[words * 8 + i] << (8 * i);
    for (size_t i = 0; i < words + 4; i++) { /* the last three rounds take no word */
        uint64_t word = i < words ? ms__get64(p + 8 * i) : i == words ? last : 0;
        if (i == words + 1) v[2] ^= 0xff;
        v[3] ^= word;
        ms__sip_round(v);
        v[0] ^= word;
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Heapsort of n items of `size` bytes, at most sizeof(ms_info), in place. It is not
 * stable: less(a, b) must be a total order. */
static void ms__sort(void *items, size_t n, size_t size,
                     bool (*less)(const void *, const void *))
{
    char *base = (char *)items, hold[sizeof(ms_info)];
    MS_ASSERT(size <= sizeof hold);
    for (size_t end = n, start = n / 2; end > 1;) {
        if (start > 0) {
            start--;
        } else { /* moves the largest after the heap */
            end--;
            memcpy(hold, base + end * size, size);
            memcpy(base + end * size, base, size);
            memcpy(base, hold, size);
        }
        for (size_t at = start, child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && less(base + child * size, base + (child + 1) * size))
                child++;
            if (!less(base + at * size, base + child * size)) break;
            memcpy(hold, base + at * size, size);
            memcpy(base + at * size, base + child * size, size);
            memcpy(base + child * size, hold, size);
        }
    }
}

typedef struct ms__keyed {
    uint64_t key, value;
} ms__keyed;

/* Sorts by key in linear time, equal keys in their order. more: room for n. Returns the
 * one of the two arrays that has the result. */
static MS__UNUSED MS__NOINLINE ms__keyed *ms__keyed_sort(ms__keyed *items,
                                                         ms__keyed *more, uint32_t n)
{
    for (unsigned shift = 0; shift < 64; shift += 6) {
        uint32_t at[64] = {0};
        for (uint32_t i = 0; i < n; i++) at[items[i].key >> shift & 63]++;
        if (n > 0 && at[items[0].key >> shift & 63] == n) continue;
        for (uint32_t d = 0, sum = 0, count; d < 64; d++, sum += count) {
            count = at[d];
            at[d] = sum;
        }
        for (uint32_t i = 0; i < n; i++)
            more[at[items[i].key >> shift & 63]++] = items[i];
        ms__keyed *hold = items;
        items = more;
        more = hold;
    }
    return items;
}

/* ---- The default clock and entropy. */

static int64_t ms__default_now(MS__UNUSED void *ctx)
{
    return ms__system_time();
}

/* Mixes time and addresses, which differ from run to run: not for secrets. */
static void ms__default_fill(MS__UNUSED void *ctx, void *out, size_t len)
{
    uint64_t seed[2], word;
    unsigned char *p = (unsigned char *)out;
    seed[0] = (uint64_t)ms__system_time();
    seed[1] = (uint64_t)(uintptr_t)&seed ^ (uint64_t)(uintptr_t)out << 20;
    for (size_t i = 0; i < len; i += 8) {
        word = ms__hash(seed, i, (const char *)seed, sizeof seed);
        memcpy(p + i, &word, ms__min(8, len - i));
    }
}
