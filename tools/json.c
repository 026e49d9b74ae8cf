/* See json.h. */

#define _GNU_SOURCE
#include "json.h"

#include <inttypes.h>
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

void pick_spans(ms_str object, const json_key *keys, size_t n, ms_str *values,
                spans *rest)
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
    double number = strtod(text, NULL); /* the tool sets no locale, so the point is '.' */
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

bool keep_of(const ms_envelope *m, uint64_t *keep)
{
    ms_str all;
    return ms_member(m, MS_STR("compaction"), &all) &&
           ms_json_u64(member(all, "keep"), keep) == MS_OK;
}

const char opaque_text[] = "data that only its own program reads";

bool is_opaque(const ms_envelope *m)
{
    ms_str item;
    return m->type == MS_T_DATA && ms_member(m, MS_STR("item"), &item);
}

void complain_of_opaque(ms_str location, uint64_t count)
{
    bool named = location.len > 0;
    if (count == 0) return;
    complain("%.*s%sleft out %" PRIu64 " message%s of %s", named ? (int)location.len : 0,
             named ? location.ptr : "", named ? ": " : "", count, plural(count),
             opaque_text);
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

void rest_nest(leftover *r, const char *name, ms_str object, const json_key *but,
               size_t n)
{
    size_t before = r->buf.len;
    rest_name(r, name);
    size_t start = r->buf.len;
    rest_write(r, "{", 1);
    rest_add(r, object, but, n);
    if (r->buf.len == start + 1) r->buf.len = before; /* all members were left out */
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


/* ---- A document that ends too early ------------------------------------------------ */

/* The last place where the document could end, and the brackets that are open there. */
typedef struct torn_scan {
    char *open;               /* an stb_ds array of closing brackets */
    size_t whole, depth;      /* bytes up to the last complete value; brackets open
                                 there */
    char before;              /* the last character that was not blank */
} torn_scan;

/* Returns the end of the string that begins at that place; the end of the text if the
 * string is torn. */
static size_t string_end(ms_str text, size_t at)
{
    for (at++; at < text.len; at++) {
        if (text.ptr[at] == '\\') at++;
        else if (text.ptr[at] == '"') return at;
    }
    return text.len;
}

static void set_whole(torn_scan *s, size_t bytes)
{
    s->whole = bytes;
    s->depth = arrlenu(s->open);
}

static void scan_char(torn_scan *s, char c, size_t at)
{
    if (c == '{' || c == '[') {
        arrput(s->open, c == '{' ? '}' : ']');
    } else if ((c == '}' || c == ']') && arrlenu(s->open) > 0) {
        (void)arrpop(s->open);
        set_whole(s, at + 1);
    } else if (c == ',') {
        set_whole(s, at);
    }
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') s->before = c;
}

bool json_close(ms_str text, ms_arena *arena, ms_str *whole, size_t *kept)
{
    torn_scan s = {NULL, 0, 0, ' '};
    ms_json_opts repair = {0, true};
    ms_buf buf = {arena, NULL, 0, 0};
    for (size_t at = 0; at < text.len; at++) {
        if (text.ptr[at] != '"') {
            scan_char(&s, text.ptr[at], at);
            continue;
        }
        bool value = s.before == ':' ||
                     (arrlenu(s.open) > 0 && arrlast(s.open) == ']');
        at = string_end(text, at);
        if (value && at < text.len) set_whole(&s, at + 1);
        s.before = '"';
    }
    bool open = arrlenu(s.open) > 0 && s.depth > 0;
    if (open) ms_buf_write(&buf, text.ptr, s.whole);
    while (open && s.depth > 0) ms_buf_write(&buf, &s.open[--s.depth], 1);
    arrfree(s.open);
    *kept = s.whole;
    return open && ms_json_check(ms_buf_text(&buf), &repair, whole, NULL) == MS_OK;
}


/* ---- Text that is not UTF-8 -------------------------------------------------------- */

static ms_str spelled_anew(ms_str value, ms_arena *arena)
{
    ms_json_writer w;
    ms_buf buf = {arena, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_put_raw(&w, value);
    if (ms_json_finish(&w) != MS_OK) exit(no_memory());
    return ms_buf_text(&buf);
}

ms_str text_repaired(ms_str text, ms_arena *arena)
{
    ms_buf buf = {arena, NULL, 0, 0};
    ms_str rest = text;
    const char *good = text.ptr; /* the valid bytes begin here */
    while (rest.len > 0) {
        const char *at = rest.ptr;
        if (next_point(&rest) != 0xFFFD) continue;
        ms_buf_write(&buf, good, (size_t)(at - good));
        json_piece(&buf, "\xEF\xBF\xBD");
        good = rest.ptr;
    }
    ms_buf_write(&buf, good, (size_t)(rest.ptr - good));
    return ms_buf_text(&buf);
}

ms_str json_repaired(ms_str text, ms_arena *arena)
{
    ms_json_opts repair = {0, true};
    ms_str value, mended = text_repaired(text, arena);
    if (ms_json_check(mended, NULL, &value, NULL) == MS_OK) return value;
    if (ms_json_check(text, &repair, &value, NULL) != MS_OK) return ms_str_n(NULL, 0);
    return spelled_anew(value, arena);
}


/* ---- Lines ------------------------------------------------------------------------- */

ms_str next_line(ms_str *text, bool *whole)
{
    *whole = false;
    if (text->len == 0) return *text; /* it may be absent */
    const char *end = memchr(text->ptr, '\n', text->len);
    size_t len = end != NULL ? (size_t)(end - text->ptr) : text->len;
    size_t used = len + (end != NULL);
    ms_str line = ms_str_n(text->ptr, len);
    *whole = end != NULL;
    *text = ms_str_n(text->ptr + used, text->len - used);
    return line;
}

bool is_blank(ms_str line)
{
    for (size_t i = 0; i < line.len; i++) {
        char c = line.ptr[i];
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return false;
    }
    return true;
}

ms_str without_mark(ms_str text)
{
    bool mark = text_begins(text, MS_STR("\xEF\xBB\xBF"));
    return mark ? ms_str_n(text.ptr + 3, text.len - 3) : text;
}
