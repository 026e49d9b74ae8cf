
/* ==== [api-types] strings, values, allocators ===================================== */

/* A view of bytes, not NUL-terminated. ptr NULL: absent; len 0: empty. A view is valid as
 * long as the bytes it refers to. */
typedef struct ms_str {
    const char *ptr;
    size_t len; /* bytes */
} ms_str;

static inline ms_str ms_str_n(const char *ptr, size_t len)
{
    ms_str s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* A string literal as ms_str. If the compiler reports a missing ')' or an operand of type
 * pointer, the argument is not a literal: use ms_str_of or ms_str_n. */
#define MS_STR(literal) ms_str_n("" literal "", sizeof("" literal "") - 1)

/* A NUL-terminated string as a view; NULL: absent. */
MS_API ms_str ms_str_of(const char *text);
MS_API bool ms_str_equal(ms_str a, ms_str b);        /* absent equals only absent */

/* Text, or the text of one JSON value. text.ptr NULL is absent. */
typedef struct ms_value {
    ms_str text;
    bool json; /* true: text is JSON */
} ms_value;

MS_API ms_value ms_text(const char *text);           /* NUL-terminated; NULL: absent */
MS_API ms_value ms_text_n(ms_str text);
MS_API ms_value ms_json(ms_str json);                /* checked when appended */

/* Checks UTF-8 (RFC 3629: no surrogates, no overlong forms, up to U+10FFFF). If it is not
 * valid, *bad (may be NULL) receives the offset of the first invalid byte. */
MS_API bool ms_utf8_check(ms_str s, size_t *bad);

/* An allocator. resize(ctx, NULL, 0, n) allocates, resize(ctx, p, old, n) grows or
 * shrinks, resize(ctx, p, old, 0) frees and returns NULL. The old size is always passed.
 * Results are aligned for any type. NULL: out of memory, p is unchanged. Zeroed: malloc,
 * realloc, free. */
typedef struct ms_alloc {
    void *(*resize)(void *ctx, void *ptr, size_t old_size, size_t new_size);
    void *ctx;
} ms_alloc;

/* A bump allocator: many allocations, freed together. A zeroed arena is ready for use
 * over malloc. Set alloc in a zeroed arena to take blocks from another allocator, or
 * buffer and buffer_size to use one buffer and allocate nothing. For one thread at a
 * time. */
typedef struct ms_arena {
    ms_alloc alloc;             /* used when buffer is NULL */
    void *buffer;               /* caller's memory, or NULL */
    size_t buffer_size;         /* bytes in it */
    size_t buffer_used;
    struct ms__block *block;    /* newest block; private */
    struct ms__block *spare;    /* blocks kept by a reset; private */
} ms_arena;

/* Returns size bytes (0 is allowed), aligned for any type and not zeroed. NULL: out of
 * memory, or the buffer is full. */
MS_API void *ms_arena_alloc(ms_arena *a, size_t size);
MS_API void ms_arena_reset(ms_arena *a);    /* frees everything, keeps the blocks */
MS_API void ms_arena_deinit(ms_arena *a);   /* returns the blocks; NULL is allowed */

/* A time is a signed number of nanoseconds since 1970-01-01 UTC: the years 1678 to 2261.
 * MS_TIME_NONE: no time. */
#define MS_TIME_NONE INT64_MIN

/* The clock that stamps messages without a time. If it returns MS_TIME_NONE, they stay
 * without one. Zeroed: the system clock, in whole microseconds. */
typedef struct ms_clock {
    int64_t (*now)(void *ctx);
    void *ctx;
} ms_clock;

/* The source of hash keys and image ids. Zeroed: a mix of clock and addresses, which
 * avoids accidental collisions; pass a random source if untrusted parties choose the
 * keys. With a constant source, equal runs write equal bytes. */
typedef struct ms_entropy {
    void (*fill)(void *ctx, void *out, size_t len);
    void *ctx;
} ms_entropy;
