/* One arena for all tests of a program: reset empties it before each test, release frees
 * it at the end. Both have the form of cmocka's setup and teardown. For programs of one
 * file. */

#ifndef ARENA_H
#define ARENA_H

#include "support.h"

static ms_arena arena;

static inline int reset(void **state)
{
    ms_arena_reset(&arena);
    return 0;
}

static inline int release(void **state)
{
    ms_arena_deinit(&arena);
    return 0;
}

#endif /* ARENA_H */
