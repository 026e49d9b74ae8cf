
/* ==== [api-arena] memory, growing texts, clocks ==================================
 * An arena holds results of any number of calls, which are freed together. Allocators,
 * clocks and sources of random bytes are for programs that bring their own. */

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

/* A function that receives written bytes. Any result but MS_OK ends the writing, and the
 * writer returns it. */
typedef ms_result (*ms_write_fn)(void *ctx, const char *bytes, size_t len);

/* A growing text in an arena: set `arena`, zero the rest. ms_buf_write is its ms_write_fn
 * (ctx is the ms_buf); without `arena` it returns MS_E_ARENA. The view that ms_buf_text
 * returns is valid until the next write or the arena's reset. */
typedef struct ms_buf {
    ms_arena *arena;
    char *ptr;
    size_t len, cap;
} ms_buf;

/* Appends bytes to the ms_buf `buf`. MS_E_ARENA, MS_E_NO_MEMORY, MS_E_TOO_LARGE: nothing
 * was appended. */
MS_API ms_result ms_buf_write(void *buf, const char *bytes, size_t len);
MS_API ms_str ms_buf_text(const ms_buf *buf); /* all that was written; no NUL follows */

/* The clock that stamps messages without a time: nanoseconds since 1970. MS_TIME_NONE:
 * they stay without one. Zeroed: the system clock, in whole microseconds. */
typedef struct ms_clock {
    int64_t (*now)(void *ctx);
    void *ctx;
} ms_clock;

/* The source of hash keys and of the ids of images and logs; fill sets len bytes. Zeroed:
 * a mix of clock and addresses, which avoids accidental collisions; pass a random source
 * if untrusted parties choose the keys. With a constant source, equal runs write equal
 * bytes. */
typedef struct ms_entropy {
    void (*fill)(void *ctx, void *out, size_t len);
    void *ctx;
} ms_entropy;
