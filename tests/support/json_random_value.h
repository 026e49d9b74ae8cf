/* A value inside a JSON value, found at random: suites that damage requests and messages
 * change it. */

#ifndef JSON_RANDOM_VALUE_H
#define JSON_RANDOM_VALUE_H

#include "support.h"

#include <jansson.h>

/* A member of an object, or an item of a list. */
typedef struct spot {
    json_t *holder;
    const char *key;          /* NULL: an item */
    size_t index;
} spot;

static inline json_t *spot_value(const spot *at)
{
    return at->key != NULL ? json_object_get(at->holder, at->key)
                           : json_array_get(at->holder, at->index);
}

static inline void spot_put(const spot *at, json_t *value)
{
    if (at->key != NULL) json_object_set_new(at->holder, at->key, value);
    else json_array_set_new(at->holder, at->index, value);
}

static inline void spot_remove(const spot *at)
{
    if (at->key != NULL) json_object_del(at->holder, at->key);
    else json_array_remove(at->holder, at->index);
}

/* Walks down at random. Returns whether there is anything inside. */
static inline bool spot_any(json_t *value, uint64_t *rng, spot *out)
{
    size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    void *member = json_object_iter(value);
    if (n == 0) return false;
    out->holder = value;
    out->index = (size_t)test_below(rng, n);
    for (size_t i = 0; i < out->index && member != NULL; i++)
        member = json_object_iter_next(value, member);
    out->key = member != NULL ? json_object_iter_key(member) : NULL;
    json_t *inner = spot_value(out);
    if (!test_one_in(rng, 3)) (void)spot_any(inner, rng, out);
    return true;
}

#endif /* JSON_RANDOM_VALUE_H */
