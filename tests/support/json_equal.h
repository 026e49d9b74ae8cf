/* Deep comparison of two JSON values as jansson parsed them: objects have no order,
 * numbers are equal by value (1 and 1.0), {} and [] differ, NULL stands for "no value".
 * It tells where the first difference is. */

#ifndef JSON_EQUAL_H
#define JSON_EQUAL_H

#include <jansson.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    JSON_MISSING_IS_NULL = 1, /* a missing member equals one that is null */
    JSON_ARGUMENTS = 2        /* two strings in members "arguments" compare as the JSON in
                                 them, when both are JSON */
};

typedef struct json_where {
    char path[256];           /* of the first difference: "messages[3].args" */
    size_t len;
} json_where;

/* Parses a text; NULL: not valid. Strings may have \u0000. If a number fits no integer of
 * jansson, all numbers are reals. */
static json_t *json_parse_n(const char *text, size_t len)
{
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_t *value = json_loadb(text, len, flags, NULL);
    return value != NULL ? value
                         : json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, NULL);
}

static bool json_same_at(json_t *a, json_t *b, unsigned options, json_where *where);

/* Goes one step down and compares; steps back when there is no difference. */
static bool json_same_step(json_t *a, json_t *b, unsigned options, json_where *where,
                           const char *key, size_t index)
{
    size_t before = where->len;
    size_t room = sizeof where->path - before;
    char *at = where->path + before;
    int n = key != NULL ? snprintf(at, room, "%s%s", before > 0 ? "." : "", key)
                        : snprintf(at, room, "[%lu]", (unsigned long)index);
    if (n > 0) where->len += (size_t)n < room ? (size_t)n : room - 1;
    if (!json_same_at(a, b, options, where)) return false;
    where->len = before;
    where->path[before] = '\0';
    return true;
}

/* Returns whether two numbers are equal; a real equals an integer of the same value. */
static bool json_same_number(json_t *a, json_t *b)
{
    double real;
    if (json_is_integer(a) && json_is_integer(b)) {
        return json_integer_value(a) == json_integer_value(b);
    }
    if (json_is_real(a) && json_is_real(b)) {
        return json_real_value(a) == json_real_value(b);
    }
    if (json_is_real(a)) return json_same_number(b, a);
    real = json_real_value(b);
    return real >= -9223372036854775808.0 && real < 9223372036854775808.0 &&
           floor(real) == real && (json_int_t)real == json_integer_value(a);
}

static bool json_same_string(json_t *a, json_t *b)
{
    size_t len = json_string_length(a);
    return len == json_string_length(b) &&
           memcmp(json_string_value(a), json_string_value(b), len) == 0;
}

/* Returns whether two strings are the same JSON. */
static bool json_same_inside(json_t *a, json_t *b)
{
    json_t *x = json_parse_n(json_string_value(a), json_string_length(a));
    json_t *y = json_parse_n(json_string_value(b), json_string_length(b));
    json_where where = {{0}, 0};
    bool same = x != NULL && y != NULL && json_same_at(x, y, 0, &where);
    json_decref(x);
    json_decref(y);
    return same;
}

static bool json_same_object(json_t *a, json_t *b, unsigned options, json_where *where)
{
    json_t *missing = (options & JSON_MISSING_IS_NULL) != 0 ? json_null() : NULL;
    const char *key;
    json_t *x, *y;
    json_object_foreach (a, key, x) {
        y = json_object_get(b, key);
        if ((options & JSON_ARGUMENTS) != 0 && strcmp(key, "arguments") == 0 &&
            json_is_string(x) && json_is_string(y) && json_same_inside(x, y)) {
            continue;
        }
        if (y == NULL) y = missing;
        if (!json_same_step(x, y, options, where, key, 0)) return false;
    }
    json_object_foreach (b, key, y) {
        if (json_object_get(a, key) != NULL) continue;
        if (!json_same_step(missing, y, options, where, key, 0)) return false;
    }
    return true;
}

static bool json_same_array(json_t *a, json_t *b, unsigned options, json_where *where)
{
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a)
                                                       : json_array_size(b);
    for (size_t i = 0; i < n; i++) {
        if (!json_same_step(json_array_get(a, i), json_array_get(b, i), options, where,
                            NULL, i)) {
            return false;
        }
    }
    return true;
}

static bool json_same_at(json_t *a, json_t *b, unsigned options, json_where *where)
{
    if (a == NULL || b == NULL) return a == b;
    if (json_is_number(a) && json_is_number(b)) return json_same_number(a, b);
    if (json_typeof(a) != json_typeof(b)) return false;
    switch (json_typeof(a)) {
    case JSON_STRING: return json_same_string(a, b);
    case JSON_ARRAY: return json_same_array(a, b, options, where);
    case JSON_OBJECT: return json_same_object(a, b, options, where);
    default: return true;
    }
}

/* Returns whether two values are the same. where may be NULL. */
static bool json_same(json_t *a, json_t *b, unsigned options, json_where *where)
{
    json_where own;
    if (where == NULL) where = &own;
    where->len = 0;
    where->path[0] = '\0';
    return json_same_at(a, b, options, where);
}

#endif
