
/* ==== [arena] memory =================================================================
 * ms_alloc is a caller's allocator, which receives old sizes; ms_arena is a bump arena
 * over it. The blocks of an arena double up to 32 KiB: larger ones would waste more room
 * than they save calls. A larger allocation gets a block of its own size; the block with
 * more room left stays in use.
 * (AR1) An allocation never moves before reset or deinit.
 * (AR2) A failed allocation changes nothing.
 * ================================================================================== */

#define MS__ALIGN ((size_t)16)
#define MS__BLOCK_FIRST ((size_t)2048)
#define MS__BLOCK_LAST ((size_t)1 << 15)

/* Allocates, resizes, or frees (new_size 0). NULL: no memory, and ptr is unchanged. */
static MS__ONCE void *ms__resize(const ms_alloc *a, void *ptr, size_t old_size,
                                 size_t new_size)
{
    if (a->resize) return a->resize(a->ctx, ptr, old_size, new_size);
#ifdef MSGSTORE_FREESTANDING
    (void)ptr, (void)old_size, (void)new_size;
    return NULL;
#else
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
#endif
}

typedef struct ms__block {
    struct ms__block *before;
    size_t size, used; /* with this header */
} ms__block;

#define MS__BLOCK_HEADER ((sizeof(ms__block) + MS__ALIGN - 1) / MS__ALIGN * MS__ALIGN)

static MS__ONCE void ms__arena_init(ms_arena *a, const ms_alloc *alloc)
{
    memset(a, 0, sizeof *a);
    if (alloc) a->alloc = *alloc;
}

static void *ms__arena_fixed(ms_arena *a, size_t size, size_t align)
{
    uintptr_t at = (uintptr_t)a->buffer + a->buffer_used;
    size_t pad = (size_t)(-at & (align - 1));
    size_t left = a->buffer_size - a->buffer_used;
    if (pad > left || size > left - pad) return NULL;
    a->buffer_used += pad + size;
    return (char *)a->buffer + a->buffer_used - size;
}

/* Returns a block with room for `size` bytes: a spare one, or a new one. */
static ms__block *ms__block_get(ms_arena *a, size_t size)
{
    for (ms__block **at = &a->spare; *at; at = &(*at)->before) {
        ms__block *b = *at;
        if (size > b->size - MS__BLOCK_HEADER) continue;
        *at = b->before;
        return b;
    }
    size_t want =
        a->block ? ms__min(a->block->size * 2, MS__BLOCK_LAST) : MS__BLOCK_FIRST;
    if (want < size + MS__BLOCK_HEADER) want = size + MS__BLOCK_HEADER;
    ms__block *b = (ms__block *)ms__resize(&a->alloc, NULL, 0, want);
    if (b) b->size = want;
    return b;
}

/* Allocates from an arena; align is a power of two up to MS__ALIGN. */
static void *ms__arena_alloc_aligned(ms_arena *a, size_t size, size_t align)
{
    if (a->buffer) return ms__arena_fixed(a, size, align);
    if (size > SIZE_MAX / 2) return NULL;
    ms__block *b = a->block;
    size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (b && at <= b->size && size <= b->size - at) {
        b->used = at + size;
        return (char *)b + at;
    }
    ms__block *fresh = ms__block_get(a, size);
    if (!fresh) return NULL;
    fresh->used = MS__BLOCK_HEADER + size;
    bool after = b && b->size - b->used > fresh->size - fresh->used;
    fresh->before = after ? b->before : b; /* the one with more room stays in use */
    if (after) b->before = fresh;
    else a->block = fresh;
    return (char *)fresh + MS__BLOCK_HEADER;
}

MS_API void *ms_arena_alloc(ms_arena *a, size_t size)
{
    return ms__arena_alloc_aligned(a, size, MS__ALIGN);
}

/* A state of an arena without a buffer, to rewind to. A new block may be linked before
 * the block in use, so `before` is part of the state. */
typedef struct ms__arena_mark {
    ms__block *block, *before;
    size_t used;
} ms__arena_mark;

static ms__arena_mark ms__arena_mark_of(const ms_arena *a)
{
    ms__arena_mark mark;
    mark.block = a->block;
    mark.before = a->block ? a->block->before : NULL;
    mark.used = a->block ? a->block->used : 0;
    return mark;
}

static void ms__block_spare(ms_arena *a, ms__block **at)
{
    ms__block *b = *at;
    *at = b->before;
    b->before = a->spare;
    a->spare = b;
}

/* Frees all allocations since the mark. The oldest block becomes the first spare one. */
static void ms__arena_rewind(ms_arena *a, const ms__arena_mark *mark)
{
    while (a->block != mark->block) ms__block_spare(a, &a->block);
    if (!a->block) return;
    while (a->block->before != mark->before) ms__block_spare(a, &a->block->before);
    a->block->used = mark->used;
}

MS_API void ms_arena_reset(ms_arena *a)
{
    a->buffer_used = 0;
    while (a->block) ms__block_spare(a, &a->block);
}

MS_API MS__ONCE void ms_arena_deinit(ms_arena *a)
{
    if (!a) return;
    ms_arena_reset(a);
    while (a->spare) {
        ms__block *b = a->spare;
        a->spare = b->before;
        (void)ms__resize(&a->alloc, b, b->size, 0);
    }
}

/* Returns the items, copied if need be, with room for one more. NULL: no room, and all is
 * unchanged. */
static MS__ONCE void *ms__list_room(ms_arena *arena, void *items, size_t count,
                                    size_t *cap, size_t size)
{
    if (count < *cap) return items;
    size_t wider = *cap ? *cap * 2 : 16;
    void *more = ms_arena_alloc(arena, wider * size);
    if (!more) return NULL;
    if (count) memcpy(more, items, count * size);
    *cap = wider;
    return more;
}

/* Replaces a text by a copy in the arena; false: the arena has no room. */
static bool ms__keep_copy(ms_arena *arena, ms_str *s)
{
    char *copy = s->ptr ? (char *)ms_arena_alloc(arena, s->len) : NULL;
    if (!copy) return !s->ptr;
    if (s->len) memcpy(copy, s->ptr, s->len);
    s->ptr = copy;
    return true;
}
