/* What the suite of [json] and its fuzz target share: every reading function on any view,
 * the place of an error, and values beside jansson's tree of the same text. Each function
 * returns NULL, or what is wrong. */

#ifndef JSON_TWIN_H
#define JSON_TWIN_H

#include "json_equal.h"
#include "support.h"
#include "utf8_twin.h"

#include <jansson.h>
#include <math.h>

static inline bool inside(ms_str part, ms_str whole)
{
    uintptr_t p = (uintptr_t)part.ptr, w = (uintptr_t)whole.ptr;
    if (part.ptr == NULL) return part.len == 0;
    return p >= w && part.len <= whole.len && p - w <= whole.len - part.len;
}

static inline bool same(ms_str s, const void *bytes, size_t len)
{
    return s.len == len && (len == 0 || memcmp(s.ptr, bytes, len) == 0);
}


/* ---- every reading function on a view, checked or not ---- */

static inline const char *touch_numbers(ms_str v)
{
    char text[TEST_SECONDS_MAX], time[MS_ISO_MAX];
    int64_t ns = 0, again = 1;
    if (ms_seconds_read(v, &ns) == MS_OK) {
        size_t len = test_seconds_write(ns, text);
        if (ms_seconds_read(ms_str_n(text, len), &again) != MS_OK || again != ns)
            return "seconds change when they are written";
    }
    if (ms_iso_read(v, &ns) != MS_OK) return NULL;
    size_t len = ms_iso_write(ns, time);
    if (ms_iso_read(ms_str_n(time, len), &again) == MS_OK && again == ns) return NULL;
    return "a time changes when it is written";
}

/* Returns whether a string begins at the first character that is no space, and ends.
 * Nobody has checked the text: an escaped quote at its end will do. */
static inline bool string_ends(ms_str v)
{
    size_t i = 0;
    while (i < v.len && v.ptr[i] != '\0' && strchr(" \t\r\n", v.ptr[i]) != NULL) i++;
    if (v.len - i < 2 || v.ptr[i] != '"') return false;
    for (i++; i < v.len && v.ptr[i] != '"'; i++) i += v.ptr[i] == '\\';
    return i < v.len || v.ptr[v.len - 1] == '"';
}

static inline const char *touch(ms_str v, ms_arena *arena)
{
    ms_str part = {NULL, 0}, decoded = {NULL, 0};
    bool flag;
    int64_t i;
    uint64_t u;
    double f;
    size_t bad = 0;
    if ((unsigned)ms_json_kind_of(v) > MS_JSON_OBJECT) return "no such kind";
    (void)test_json_bool(v, &flag);
    (void)ms_json_i64(v, &i);
    (void)ms_json_u64(v, &u);
    (void)ms_json_f64(v, &f);
    if (ms_json_string_is(v, MS_STR("abc")) && !string_ends(v))
        return "a string without end is equal to one";
    for (size_t n = 0; n < 3; n++)
        if (ms_json_element(v, n, &part) && !inside(part, v)) return "element outside";
    if (ms_json_member(v, MS_STR("a"), &part) && !inside(part, v))
        return "member outside";
    if (ms_json_string(v, NULL, &decoded) == MS_OK && !inside(decoded, v))
        return "a string without arena that is no view";
    if (ms_json_string(v, arena, &decoded) == MS_OK && !ms_utf8_check(decoded, NULL))
        return "a decoded string that is not UTF-8";
    if (decoded.ptr != NULL && !string_ends(v)) return "a string without end";
    if (!ms_utf8_check(v, &bad) && bad >= v.len) return "bad UTF-8 after the end";
    return touch_numbers(v);
}

/* The view, items of it (`most` in all), those of the last container in it, and so on. */
static inline const char *visit(ms_str v, size_t most, ms_arena *arena)
{
    const char *why = touch(v, arena);
    for (ms_str at = v; at.ptr != NULL && why == NULL;) {
        ms_str down = {NULL, 0};
        ms_json_iter it = ms_json_iterate(at);
        size_t steps = 0;
        while (why == NULL && ms_json_next(&it)) {
            if (++steps > at.len) return "an iterator without end";
            if (!inside(it.key, at) || !inside(it.value, at)) return "item outside";
            if ((it.key.ptr != NULL) != (ms_json_kind_of(at) == MS_JSON_OBJECT))
                return "a key in an array, or none in an object";
            if (most > 0) why = touch(it.value, arena);
            if (most > 0 && why == NULL && it.key.ptr != NULL) why = touch(it.key, arena);
            most -= most > 0;
            if (ms_json_kind_of(it.value) >= MS_JSON_ARRAY) down = it.value;
        }
        if (down.ptr != NULL && down.len >= at.len) return "a value as long as its home";
        at = down;
    }
    return why;
}


/* ---- the place of an error ---- */

static inline uint32_t escaped_unit(const char *bytes, size_t left)
{
    char hex[5] = {0};
    if (left < 6 || bytes[0] != '\\' || bytes[1] != 'u') return 0;
    for (size_t i = 0; i < 4; i++) {
        hex[i] = bytes[2 + i];
        if (strchr("0123456789abcdefABCDEF", hex[i]) == NULL || hex[i] == '\0') return 0;
    }
    return (uint32_t)strtoul(hex, NULL, 16);
}

/* Returns how long a word, an escape or a character can be that begins with that byte;
 * an escape may be half of a pair. */
static inline size_t most_of_unit(char first)
{
    if (first == '\\') return 12;
    if (first == 'f') return 5;
    return first == 't' || first == 'n' || (first & 0x80) != 0 ? 4 : 1;
}

/* Returns whether bad UTF-8, or half of a pair of surrogates, stands there. */
static inline bool is_bad_utf8(const char *at, size_t left)
{
    size_t bad;
    uint32_t unit = escaped_unit(at, left);
    return (unit >= 0xD800 && unit < 0xE000) ||
           naive_character((const unsigned char *)at, left, &bad) == 0;
}

/* The text before the offset must be blameless: ended there, it is accepted or ends too
 * early. Ended after the byte at the offset, or after the word, escape or character that
 * begins there, it has the same error. */
static inline const char *error_is_odd(ms_str json, const ms_json_opts *opts,
                                       const ms_error *err)
{
    uint32_t line = 1, column = 1;
    ms_error sub;
    size_t o = (size_t)err->offset;
    if (err->code != MS_E_SYNTAX && err->code != MS_E_UTF8 && err->code != MS_E_DEPTH)
        return "an error of another kind";
    if (err->offset > json.len) return "an error after the end";
    for (size_t i = 0; i < o; i++) {
        column = json.ptr[i] == '\n' ? 1 : column + 1;
        line += json.ptr[i] == '\n';
    }
    if (err->line != line || err->column != column) return "line or column is off";
    if (err->message[0] == '\0' || !memchr(err->message, '\0', sizeof err->message))
        return "no message";
    if (ms_json_check(ms_str_n(json.ptr, o), opts, NULL, &sub) != MS_OK &&
        (sub.code != MS_E_SYNTAX || sub.offset != o))
        return "an error before the first error";
    if (o == json.len) return NULL;
    size_t unit = most_of_unit(json.ptr[o]), left = json.len - o;
    if (ms_json_check(ms_str_n(json.ptr, o + (unit < left ? unit : left)), opts, NULL,
                      &sub) != err->code || sub.offset != o)
        return "an error that needs bytes after it";
    if (err->code == MS_E_UTF8 && !is_bad_utf8(json.ptr + o, left))
        return "UTF-8 that is not bad";
    return NULL;
}


/* ---- jansson's tree ---- */

/* Jansson's tree; NULL when it refuses. *judges: false where only jansson refuses: real
 * numbers beyond its types, and \u0000 in the name of a member. Integers beyond its types
 * are reals in the tree. Its limit of depth (2048) is beyond ours. */
static inline json_t *jansson_reads(const char *bytes, size_t len, bool *judges)
{
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    json_error_t error;
    json_t *tree = json_loadb(bytes, len, flags, &error);
    *judges = tree != NULL || (json_error_code(&error) != json_error_numeric_overflow &&
                               json_error_code(&error) != json_error_null_byte_in_key);
    return tree;
}

/* How deep the brackets of a valid text nest. */
static inline unsigned nesting(const char *bytes, size_t len)
{
    unsigned depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];
        if (c == '"') in_string = !in_string;
        else if (in_string) i += c == '\\';
        else if (c == '[' || c == '{') most = ++depth > most ? depth : most;
        else if (c == ']' || c == '}') depth--;
    }
    return most;
}


/* ---- values against it ---- */

/* A text that jansson has read. Decoded strings are in the arena. */
typedef struct json_twin {
    ms_str original;
    ms_arena *arena;
} json_twin;

static inline const char *differs(const json_twin *t, ms_str v, json_t *j);

/* The text of a number, with a NUL after it. */
static inline char *number_copy(ms_str v, ms_arena *arena)
{
    char *copy = (char *)ms_arena_alloc(arena, v.len + 32);
    if (copy == NULL) return NULL;
    memcpy(copy, v.ptr, v.len);
    copy[v.len] = '\0';
    return copy;
}

/* The integer that the text of a number spells, found by shifting its digits in place.
 * False: it has a fraction or more than 20 digits. */
static inline bool spells_integer(char *digits, bool *negative, uint64_t *magnitude)
{
    size_t n = 0;
    long scale = 0, exponent = 0;
    bool fraction = false, down = false;
    const char *c = digits;
    *negative = *c == '-';
    *magnitude = 0;
    for (c += *negative; *c != '\0' && (*c | 0x20) != 'e'; c++) {
        if (*c == '.') {
            fraction = true;
            continue;
        }
        if (fraction) scale--;
        if (n > 0 || *c != '0') digits[n++] = *c;
    }
    for (; *c != '\0'; c++) {
        if (*c == '-') down = true;
        if (*c >= '0' && *c <= '9' && exponent < 100000000)
            exponent = 10 * exponent + (*c - '0');
    }
    scale += down ? -exponent : exponent;
    for (; n > 0 && digits[n - 1] == '0'; n--) scale++;
    if (n == 0) return true;
    if (scale < 0 || (long)n + scale > 20) return false;
    for (; scale > 0; scale--) digits[n++] = '0';
    for (size_t i = 0; i < n; i++) {
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (*magnitude > (UINT64_MAX - digit) / 10) return false;
        *magnitude = 10 * *magnitude + digit;
    }
    return true;
}

static inline const char *integer_differs(ms_str v, char *copy)
{
    const uint64_t half = (uint64_t)1 << 63;
    bool negative;
    uint64_t magnitude, u = 77;
    int64_t i = 77;
    bool whole = spells_integer(copy, &negative, &magnitude);
    bool fits_i = whole && (negative ? magnitude <= half : magnitude < half);
    bool fits_u = whole && (magnitude == 0 || !negative);
    if (ms_json_i64(v, &i) != (fits_i ? MS_OK : MS_E_RANGE)) return "i64 result";
    if (ms_json_u64(v, &u) != (fits_u ? MS_OK : MS_E_RANGE)) return "u64 result";
    if (i != (!fits_i ? 77 : negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude))
        return "i64";
    if (u != (fits_u ? magnitude : 77)) return "u64";
    return NULL;
}

/* A number beside strtod's, and beside the integer that it spells. */
static inline const char *number_differs(ms_str v, ms_arena *arena)
{
    char *copy = number_copy(v, arena);
    double want, got = 77;
    if (copy == NULL) return "no memory";
    want = strtod(copy, NULL);
    if (ms_json_f64(v, &got) != (isinf(want) ? MS_E_RANGE : MS_OK)) return "f64 result";
    if (isinf(want)) want = 77;
    if (memcmp(&want, &got, sizeof got) != 0) return "f64 is not strtod's";
    return integer_differs(v, copy);
}

/* Each getter on a value of another kind: refused, and *out as it was. */
static inline const char *kind_differs(ms_str v, ms_json_kind kind)
{
    ms_result number = kind == MS_JSON_NUMBER ? MS_OK : MS_E_KIND;
    int64_t i = 77;
    uint64_t u = 77;
    double f = 77;
    ms_str s = MS_STR("untouched"), part = s;
    ms_json_iter it = ms_json_iterate(v);
    if (ms_json_kind_of(v) != kind) return "another kind";
    if (number != MS_OK) {
        if (ms_json_i64(v, &i) != number || ms_json_u64(v, &u) != number ||
            ms_json_f64(v, &f) != number)
            return "a number";
        if (i != 77 || u != 77 || memcmp(&f, &(double){77}, sizeof f) != 0)
            return "a number that was not read";
    }
    if (kind != MS_JSON_STRING) {
        if (ms_json_string(v, NULL, &s) != MS_E_KIND || !same(s, "untouched", 9) ||
            ms_json_string_is(v, v))
            return "a string";
    }
    if (kind != MS_JSON_OBJECT && ms_json_member(v, MS_STR("a"), &part)) return "a member";
    if (kind != MS_JSON_ARRAY && ms_json_element(v, 0, &part)) return "an element";
    return kind < MS_JSON_ARRAY && ms_json_next(&it) ? "an item" : NULL;
}

static inline const char *string_differs(const json_twin *t, ms_str v, json_t *j)
{
    ms_str s, longer;
    if (ms_json_string(v, t->arena, &s) != MS_OK) return "no string";
    if (!same(s, json_string_value(j), json_string_length(j))) return "another string";
    if (s.ptr == NULL) return "absent instead of empty";
    if (!ms_json_string_is(v, s)) return "string_is denies it";
    longer = ms_str_n(json_string_value(j), s.len + 1); /* with jansson's NUL */
    if (ms_json_string_is(v, longer)) return "string_is takes a longer one";
    if (ms_json_string_is(v, ms_str_of(NULL)) && s.len > 0) return "string_is takes none";
    for (size_t end = 0; end < s.len; end += 1 + end / 8) {
        char *other = (char *)ms_arena_alloc(t->arena, s.len);
        if (ms_json_string_is(v, ms_str_n(s.ptr, end))) return "string_is takes a start";
        memcpy(other, s.ptr, s.len);
        other[end] ^= 1;
        if (ms_json_string_is(v, ms_str_n(other, s.len))) return "string_is takes another";
    }
    bool plain = memchr(v.ptr, '\\', v.len) == NULL && ms_utf8_check(v, NULL);
    return inside(s, v) != plain ? "view or copy" : NULL;
}

static inline const char *object_differs(const json_twin *t, ms_str v, json_t *j)
{
    void *first = json_object_iter(j); /* jansson keeps the order of first appearance */
    ms_json_iter it = ms_json_iterate(v);
    static const char *const names[] = {"", "a", "b", "ab", "k", "\\u0061"};
    size_t distinct = 0;
    while (ms_json_next(&it)) {
        ms_str key, last;
        char *name;
        if (ms_json_string(it.key, t->arena, &key) != MS_OK) return "a key is no string";
        if ((name = number_copy(key, t->arena)) == NULL) return "no memory";
        json_t *member = json_object_get(j, name);
        if (member == NULL || !ms_json_member(v, key, &last)) return "a member is lost";
        if (last.ptr < it.value.ptr) return "a later member of that name";
        if (first != NULL && strcmp(json_object_iter_key(first), name) == 0)
            first = json_object_iter_next(j, first);
        if (last.ptr != it.value.ptr) continue;
        distinct++;
        const char *why = differs(t, it.value, member);
        if (why != NULL) return why;
    }
    if (first != NULL) return "another order of members";
    for (size_t i = 0; i < COUNT(names); i++) {
        ms_str last, name = ms_str_of(names[i]);
        if (ms_json_member(v, name, &last) != (json_object_get(j, names[i]) != NULL))
            return "a member that is not there";
    }
    if (ms_json_next(&it)) return "an item after the end";
    return distinct != json_object_size(j) ? "another number of members" : NULL;
}

static inline const char *array_differs(const json_twin *t, ms_str v, json_t *j)
{
    ms_json_iter it = ms_json_iterate(v);
    size_t n = 0;
    ms_str element = {NULL, 0};
    const char *why = NULL;
    while (why == NULL && ms_json_next(&it)) {
        if (n >= json_array_size(j)) return "too many elements";
        if (!ms_json_element(v, n, &element) || element.ptr != it.value.ptr ||
            element.len != it.value.len)
            return "another element";
        why = differs(t, it.value, json_array_get(j, n++));
    }
    if (why == NULL && n != json_array_size(j)) why = "too few elements";
    if (ms_json_element(v, n, &element) || ms_json_element(v, SIZE_MAX, &element))
        return "an element after the end";
    return why;
}

static inline const char *differs(const json_twin *t, ms_str v, json_t *j)
{
    static const ms_json_kind kinds[] = {MS_JSON_OBJECT, MS_JSON_ARRAY,  MS_JSON_STRING,
                                         MS_JSON_NUMBER, MS_JSON_NUMBER, MS_JSON_TRUE,
                                         MS_JSON_FALSE,  MS_JSON_NULL};
    bool flag = true;
    const char *why = kind_differs(v, kinds[json_typeof(j)]);
    if (why != NULL) return why;
    if (!inside(v, t->original)) return "a value outside";
    switch (json_typeof(j)) {
    case JSON_OBJECT: return object_differs(t, v, j);
    case JSON_ARRAY: return array_differs(t, v, j);
    case JSON_STRING: return string_differs(t, v, j);
    case JSON_INTEGER:
    case JSON_REAL: return number_differs(v, t->arena);
    case JSON_TRUE:
    case JSON_FALSE:
        if (test_json_bool(v, &flag) != MS_OK || flag != json_is_true(j)) return "bool";
        return NULL;
    default: return NULL;
    }
}


/* ---- writing what was read ---- */

/* Built anew from what the getters return. */
static inline bool build(ms_json_writer *w, ms_str v, ms_arena *arena)
{
    ms_str s;
    bool flag = false, fine = true;
    ms_json_kind kind = ms_json_kind_of(v);
    ms_json_iter it = ms_json_iterate(v);
    switch (kind) {
    case MS_JSON_NULL: test_json_put_null(w); return true;
    case MS_JSON_TRUE:
    case MS_JSON_FALSE:
        (void)test_json_bool(v, &flag);
        test_json_put_bool(w, flag);
        return true;
    case MS_JSON_STRING:
        if (ms_json_string(v, arena, &s) != MS_OK) return false;
        ms_json_put_string(w, s);
        return true;
    case MS_JSON_ARRAY:
    case MS_JSON_OBJECT: ms_json_begin(w, kind); break;
    default: ms_json_put_raw(w, v); return true;
    }
    while (fine && ms_json_next(&it)) {
        if (it.key.ptr != NULL) {
            fine = ms_json_string(it.key, arena, &s) == MS_OK;
            ms_json_key(w, s);
        }
        fine = fine && build(w, it.value, arena);
    }
    ms_json_end(w);
    return fine;
}

/* Absent when it cannot be written. */
static inline ms_str built(ms_str v, ms_arena *arena)
{
    ms_json_writer w;
    ms_buf out = {arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &out, false);
    bool fine = build(&w, v, arena);
    return ms_json_finish(&w) == MS_OK && fine ? ms_buf_text(&out) : ms_str_of(NULL);
}

/* Lays a JSON text out anew: without white space, or pretty, a line for each item. */
static inline size_t lay_out(ms_str json, bool pretty, char *to)
{
    size_t n = 0, depth = 0;
    char before = '\0';
    for (size_t i = 0; i < json.len; i++) {
        char c = json.ptr[i];
        if (strchr(" \t\r\n", c) != NULL) continue;
        bool begins = before == '[' || before == '{', ends = c == ']' || c == '}';
        depth -= ends;
        if (pretty && (before == ',' || begins != ends)) {
            to[n++] = '\n';
            memset(to + n, ' ', 2 * depth);
            n += 2 * depth;
        }
        depth += c == '[' || c == '{';
        before = to[n++] = c;
        if (pretty && c == ':') to[n++] = ' ';
        for (bool open = c == '"'; open;) { /* up to the end of a string */
            c = to[n++] = json.ptr[++i];
            open = c != '"';
            if (c == '\\') to[n++] = json.ptr[++i];
        }
    }
    return n;
}

static inline ms_str written_raw(ms_str v, bool pretty, ms_arena *arena)
{
    ms_json_writer w;
    ms_buf out = {arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &out, pretty);
    ms_json_put_raw(&w, v);
    return ms_json_finish(&w) == MS_OK ? ms_buf_text(&out) : ms_str_of(NULL);
}

/* Is the text what jansson has read? tree NULL: is it JSON? */
static inline bool means(ms_str text, json_t *tree)
{
    if (ms_json_check(text, NULL, NULL, NULL) != MS_OK) return false;
    bool judges;
    json_t *again = tree != NULL ? jansson_reads(text.ptr, text.len, &judges) : NULL;
    bool same = tree == NULL || (again != NULL && json_same(tree, again, 0, NULL));
    json_decref(again);
    return same;
}

/* A checked value is written as it is spelled, which is `spelled` where it had to be
 * repaired, plain and pretty, and built anew: the same value each time. */
static inline const char *written_differs_from(ms_str spelled, ms_str v, json_t *tree,
                                               ms_arena *arena)
{
    size_t most = spelled.len * (2 * nesting(spelled.ptr, spelled.len) + 3);
    char *want = (char *)ms_arena_alloc(arena, most + 1);
    ms_str raw = written_raw(v, false, arena), anew = built(v, arena);
    if (want == NULL) return "no memory";
    if (!same(raw, want, lay_out(spelled, false, want)))
        return "written, it is not as it was spelled";
    if (!means(raw, tree) || !means(anew, tree)) return "written, it means something else";
    if (!same(written_raw(v, true, arena), want, lay_out(spelled, true, want)))
        return "written pretty, it has another layout";
    if (!same(anew, want, lay_out(anew, false, want)))
        return "written anew, it has white space";
    return ms_str_equal(built(anew, arena), anew) ? NULL : "built twice, it changes";
}

static inline const char *written_differs(ms_str v, json_t *tree, ms_arena *arena)
{
    return written_differs_from(v, v, tree, arena);
}

#endif /* JSON_TWIN_H */
