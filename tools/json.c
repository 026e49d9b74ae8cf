/* See json.h. */

#define _GNU_SOURCE
#include "json.h"

#include <stdlib.h>
#include <string.h>

bool key_is(ms_str key_text, ms_str name)
{
    if (key_text.len == name.len + 2) {
        if (memcmp(key_text.ptr + 1, name.ptr, name.len) == 0) return true;
    }
    return memchr(key_text.ptr, '\\', key_text.len) != NULL &&
           ms_json_string_is(key_text, name);
}

static bool is_one_of(ms_str key_text, const json_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (key_is(key_text, ms_str_n(keys[i].name, keys[i].len))) return true;
    }
    return false;
}

void pick(ms_str object, const json_key *keys, size_t n, ms_str *values)
{
    memset(values, 0, n * sizeof *values);
    if (!is_object(object)) return;
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        const char *name = it.key.ptr + 1;
        size_t len = it.key.len - 2;
        for (size_t i = 0; i < n; i++) {
            if (keys[i].len != len || memcmp(keys[i].name, name, len) != 0) continue;
            values[i] = it.value;
            break;
        }
    }
}

bool is_kind(ms_str value, ms_json_kind kind)
{
    return value.ptr != NULL && ms_json_kind_of(value) == kind;
}

bool is_object(ms_str value)
{
    return is_kind(value, MS_JSON_OBJECT);
}

void pick_spans(ms_str object, const json_key *keys, size_t n, ms_str *values, spans *rest)
{
    memset(values, 0, n * sizeof *values);
    rest->count = 0;
    rest->full = false;
    if (!is_object(object)) return;
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        const char *name = it.key.ptr + 1;
        size_t len = it.key.len - 2, i = 0;
        while (i < n && (keys[i].len != len || memcmp(keys[i].name, name, len) != 0)) i++;
        if (i < n) {
            values[i] = it.value;
        } else if (rest->count < SPANS) {
            size_t size = (size_t)(it.value.ptr - it.key.ptr) + it.value.len;
            rest->text[rest->count++] = ms_str_n(it.key.ptr, size);
        } else {
            rest->full = true;
        }
    }
}

ms_str peek(ms_str object, const char *name)
{
    ms_json_iter it = ms_json_iterate(object);
    ms_str wanted = ms_str_of(name);
    while (is_object(object) && ms_json_next(&it)) {
        if (key_is(it.key, wanted)) return it.value;
    }
    return ms_str_n(NULL, 0);
}

ms_str peek_first(ms_str array, const char *name)
{
    size_t at = 1;
    if (!is_kind(array, MS_JSON_ARRAY)) return ms_str_n(NULL, 0);
    while (at < array.len && array.ptr[at] != '{') {
        if (strchr(" \t\r\n", array.ptr[at]) == NULL) return ms_str_n(NULL, 0);
        at++;
    }
    return peek(ms_str_n(array.ptr + at, array.len - at), name);
}

ms_str member(ms_str object, const char *name)
{
    ms_str value;
    ms_str none = {NULL, 0};
    if (!is_object(object)) return none;
    return ms_json_member(object, ms_str_of(name), &value) ? value : none;
}

ms_str member_at(ms_str object, const char *path)
{
    char name[64];
    while (object.ptr != NULL && *path != '\0') {
        size_t len = strcspn(path, ".");
        if (len >= sizeof name) return ms_str_n(NULL, 0);
        memcpy(name, path, len);
        name[len] = '\0';
        object = member(object, name);
        path += len + (path[len] == '.');
    }
    return object;
}

ms_str text_of(ms_arena *arena, ms_str value)
{
    ms_str text = {NULL, 0};
    if (is_kind(value, MS_JSON_STRING)) ms_json_string(value, arena, &text);
    return text;
}

bool text_is(ms_str value, const char *text)
{
    size_t len = strlen(text);
    return value.ptr != NULL && value.len == len + 2 && value.ptr[0] == '"' &&
           memcmp(value.ptr + 1, text, len) == 0;
}

double number_of(ms_str value)
{
    char text[64];
    if (!is_kind(value, MS_JSON_NUMBER) || value.len >= sizeof text) return 0;
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    double number = strtod(text, NULL); /* the tool has no locale but C */
    return number > 0 && number < 1e300 ? number : 0;
}

uint64_t count_of(ms_str value)
{
    uint64_t count = 0;
    if (!is_kind(value, MS_JSON_NUMBER)) return 0;
    if (ms_json_u64(value, &count) == MS_OK) return count;
    double number = number_of(value);
    return number < 1e18 ? (uint64_t)number : 0;
}


/* ---- Objects put together ---------------------------------------------------------- */

void json_piece(ms_buf *buf, const char *text)
{
    ms_buf_write(buf, text, strlen(text));
}

void json_quoted(ms_buf *buf, ms_str text)
{
    ms_json_writer w;
    ms_json_init(&w, ms_buf_write, buf, false);
    ms_json_put_string(&w, text);
    ms_json_finish(&w);
}

void rest_begin(leftover *r, ms_arena *arena)
{
    memset(r, 0, sizeof *r);
    r->buf.arena = arena;
}

static void rest_write(leftover *r, const char *bytes, size_t len)
{
    if (ms_buf_write(&r->buf, bytes, len) != MS_OK) r->failed = true;
}

static void rest_open(leftover *r)
{
    char last = r->buf.len > 0 ? r->buf.ptr[r->buf.len - 1] : '\0';
    if (last == '\0') rest_write(r, "{", 1);
    else if (last != '{') rest_write(r, ",", 1);
}

void rest_add(leftover *r, ms_str object, const json_key *but, size_t n)
{
    if (!is_object(object)) return;
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        if (is_one_of(it.key, but, n)) continue;
        rest_open(r);
        rest_write(r, it.key.ptr, it.key.len);
        rest_write(r, ":", 1);
        rest_write(r, it.value.ptr, it.value.len);
    }
}

static void rest_name(leftover *r, const char *name)
{
    rest_open(r);
    rest_write(r, "\"", 1);
    rest_write(r, name, strlen(name));
    rest_write(r, "\":", 2);
}

void rest_nest(leftover *r, const char *name, ms_str object, const json_key *but, size_t n)
{
    size_t before = r->buf.len;
    rest_name(r, name);
    size_t start = r->buf.len;
    rest_write(r, "{", 1);
    rest_add(r, object, but, n);
    if (r->buf.len == start + 1) r->buf.len = before; /* none is left */
    else rest_write(r, "}", 1);
}

void rest_put(leftover *r, const char *name, ms_str json)
{
    if (json.ptr == NULL) return;
    rest_name(r, name);
    rest_write(r, json.ptr, json.len);
}

void rest_spans(leftover *r, const spans *s, ms_str object, const json_key *but, size_t n)
{
    if (s->full) {
        rest_add(r, object, but, n);
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        rest_open(r);
        rest_write(r, s->text[i].ptr, s->text[i].len);
    }
}

ms_str rest_end(leftover *r)
{
    if (r->buf.len <= 1) return ms_str_n(NULL, 0);
    rest_write(r, "}", 1);
    return r->failed ? ms_str_n(NULL, 0) : ms_buf_text(&r->buf);
}
