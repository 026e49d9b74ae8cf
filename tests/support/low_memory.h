/* Memory that ends: a job runs in arenas of growing size, then over a heap of which each
 * allocation fails in turn, until there is enough. */

#ifndef LOW_MEMORY_H
#define LOW_MEMORY_H

#include "support.h"

/* Does the job in an arena, and checks what it leaves. Returns MS_OK when all came out as
 * with plenty of memory. */
typedef ms_result (*low_memory_fn)(void *job, ms_arena *in);

/* Returns the code of this memory, for functions that have one code for both. */
static inline ms_result low_memory_code(const ms_arena *in)
{
    return in->buffer != NULL ? MS_E_ARENA : MS_E_NO_MEMORY;
}

/* Returns how many times there was too little. What fails then fails for that reason, and
 * all that was taken comes back. */
static inline size_t low_memory(low_memory_fn attempt, void *job, size_t step)
{
    static uint64_t room[1 << 17];
    size_t failed = 0;
    for (size_t size = 0;; size += step + size / 128, failed++) {
        ms_arena in;
        if (size > sizeof room) fail_msg("it never has enough");
        test_arena_init_fixed(&in, room, size);
        ms_result code = attempt(job, &in);
        if (code == MS_OK) break;
        if (code != MS_E_ARENA) fail_msg("in %zu bytes: %s", size, ms_result_text(code));
    }
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena in;
        test_alloc_init(&heap);
        heap.fail_at = k;
        test_arena_init(&in, &heap.alloc);
        ms_result code = attempt(job, &in);
        if (code != (heap.failed == 0 ? MS_OK : MS_E_NO_MEMORY))
            fail_msg("allocation %zu: %s", k, ms_result_text(code));
        ms_arena_deinit(&in);
        test_alloc_done(&heap);
        failed += code != MS_OK;
        if (heap.failed == 0) return failed;
    }
}

#endif /* LOW_MEMORY_H */
