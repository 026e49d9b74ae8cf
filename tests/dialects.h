/* What tests of the message formats share: an arena for each test, the dialects by name,
 * ways to read. */

#ifndef TESTS_DIALECTS_H
#define TESTS_DIALECTS_H

#include "support.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static ms_arena arena; /* of one test; may be reset between its cases */

static int open_arena(void **state)
{
    (void)state;
    test_arena_init(&arena, NULL);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    ms_arena_deinit(&arena);
    return 0;
}

static const ms_dialect *dialect(const char *name)
{
    const ms_dialect *found = ms_dialect_find(ms_str_of(name));
    assert_non_null(found);
    return found;
}

enum { STRICT = 0, LENIENT = 1, REPAIR = 2 };

#endif /* TESTS_DIALECTS_H */
