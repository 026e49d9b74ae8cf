/* Fuzzes JSON: the input is the text.
 *
 * Checked, read and written, strictly and with repair, against jansson: what is accepted
 * and refused, the place of an error, every value, and what the writer makes of them (as
 * they are spelled, and built anew from what the getters say). Where jansson has a rule
 * of its own it is not asked, or asked about a text without that trouble: numbers beyond
 * its types, \u0000 in names, NUL bytes outside of strings, nesting beyond our limit.
 * Every reading function is called on the text as it is too, checked or not, on numbers
 * and times, and must stay in its view.
 * Left out: lists of deltas and messages, see fuzz_dialect.c.
 */

#define _POSIX_C_SOURCE 200809L
#define FUZZ_MOST 4096
#include "fuzz.h"
#include "../json_equal.h"


static ms_arena arena;

static bool inside(ms_str part, ms_str whole)
{
    uintptr_t p = (uintptr_t)part.ptr, w = (uintptr_t)whole.ptr;
    if (part.ptr == NULL) return part.len == 0;
    return p >= w && part.len <= whole.len && p - w <= whole.len - part.len;
}

static void must(bool holds, const char *what, ms_str text)
{
    if (holds) return;
    fuzz_show("text", text);
    fuzz_fail("%s", what);
}


/* ---- every reading function, on whatever bytes ---- */

static void touch_numbers(ms_str v)
{
    char text[TEST_SECONDS_MAX], time[MS_ISO_MAX];
    int64_t ns = 0, again = 1;
    if (ms_seconds_read(v, &ns) == MS_OK) {
        size_t len = test_seconds_write(ns, text);
        must(ms_seconds_read(ms_str_n(text, len), &again) == MS_OK && again == ns,
             "seconds change when they are written", v);
    }
    if (ms_iso_read(v, &ns) != MS_OK) return;
    size_t len = ms_iso_write(ns, time);
    must(ms_iso_read(ms_str_n(time, len), &again) == MS_OK && again == ns,
         "a time changes when it is written", v);
}

static void touch(ms_str v)
{
    ms_str part = {NULL, 0}, decoded = {NULL, 0};
    bool flag;
    int64_t i;
    uint64_t u;
    double f;
    size_t bad = 0;
    must((unsigned)ms_json_kind_of(v) <= MS_JSON_OBJECT, "no such kind", v);
    (void)test_json_bool(v, &flag);
    (void)ms_json_i64(v, &i);
    (void)ms_json_u64(v, &u);
    (void)ms_json_f64(v, &f);
    (void)ms_json_string_is(v, MS_STR("abc"));
    touch_numbers(v);
    if (ms_json_element(v, 1, &part)) must(inside(part, v), "element outside", v);
    if (ms_json_member(v, MS_STR("a"), &part)) must(inside(part, v), "member outside", v);
    if (ms_json_string(v, NULL, &decoded) == MS_OK)
        must(inside(decoded, v), "a string without arena that is no view", v);
    if (ms_json_string(v, &arena, &decoded) == MS_OK)
        must(ms_utf8_check(decoded, NULL), "a decoded string that is not UTF-8", v);
    if (!ms_utf8_check(v, &bad)) must(bad < v.len, "bad UTF-8 behind the end", v);
}

/* The view, all that is in it, all in the last container in it, and so on. */
static void visit(ms_str v)
{
    size_t budget = 200;
    touch(v);
    for (ms_str at = v; at.ptr != NULL;) {
        ms_str down = {NULL, 0};
        ms_json_iter it = ms_json_iterate(at);
        size_t steps = 0;
        bool object = ms_json_kind_of(at) == MS_JSON_OBJECT;
        while (ms_json_next(&it)) {
            must(++steps <= at.len, "an iterator without end", v);
            must(inside(it.key, at) && inside(it.value, at), "item outside", v);
            must((it.key.ptr != NULL) == object, "a key in an array, or none", v);
            if (budget > 0) budget--, touch(it.value);
            if (ms_json_kind_of(it.value) >= MS_JSON_ARRAY) down = it.value;
        }
        must(down.ptr == NULL || down.len < at.len, "a value as long as its home", v);
        at = down;
    }
}


/* ---- what jansson says ---- */

/* How long the number at the start of these bytes is; 0: there is none. */
static size_t digits_at(const char *bytes, size_t left)
{
    size_t n = 0;
    while (n < left && bytes[n] >= '0' && bytes[n] <= '9') n++;
    return n;
}

static size_t number_at(const char *bytes, size_t left)
{
    size_t n = left > 0 && bytes[0] == '-', more;
    if ((more = digits_at(bytes + n, left - n)) == 0) return 0;
    n += bytes[n] == '0' ? 1 : more;
    if (n < left && bytes[n] == '.') {
        if ((more = digits_at(bytes + n + 1, left - n - 1)) == 0) return n;
        n += 1 + more;
    }
    if (n < left && (bytes[n] | 0x20) == 'e') {
        size_t sign = n + 1 < left && (bytes[n + 1] == '+' || bytes[n + 1] == '-');
        if ((more = digits_at(bytes + n + 1 + sign, left - n - 1 - sign)) == 0) return n;
        n += 1 + sign + more;
    }
    return n;
}

/* The number that ends at `end` becomes 0, with blanks on both sides of it. */
static void blank_number(char *bytes, size_t end)
{
    size_t at = end, n;
    while (at > 0 && bytes[at - 1] != '\0' && strchr("+-.eE0123456789", bytes[at - 1]))
        at--;
    while ((n = number_at(bytes + at, end - at)) != end - at) at += n > 0 ? n : 1;
    memset(bytes + at, ' ', end - at);
    bytes[at + 1] = '0';
}

/* The last \u0000 before `end` becomes \u0001. */
static bool blank_nul(char *bytes, size_t end)
{
    for (size_t at = end; at-- > 0;) {
        size_t slashes = 0;
        if (end - at < 6 || memcmp(bytes + at, "\\u0000", 6) != 0) continue;
        while (slashes < at && bytes[at - 1 - slashes] == '\\') slashes++;
        if (slashes % 2 != 0) continue;
        bytes[at + 5] = '1';
        return true;
    }
    return false;
}

/* Jansson's tree of the text, which is patched where only jansson refuses; *patched: it
 * was. NULL: refused. */
static json_t *jansson_reads(char *bytes, size_t len, bool *patched)
{
    json_error_t error;
    *patched = false;
    for (;; *patched = true) {
        json_t *tree = fuzz_jansson(ms_str_n(bytes, len), 0, &error);
        if (tree != NULL) return tree;
        if (json_error_code(&error) == json_error_numeric_overflow)
            blank_number(bytes, (size_t)error.position);
        else if (json_error_code(&error) != json_error_null_byte_in_key ||
                 !blank_nul(bytes, (size_t)error.position))
            return NULL;
    }
}

/* How deep the brackets of a valid text nest. */
static unsigned nesting(const char *bytes, size_t len)
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


/* ---- values against its tree ---- */

static void same_value(ms_str v, json_t *j, ms_str text);

static void same_number(ms_str v, json_t *j, ms_str text)
{
    char copy[FUZZ_MOST + 1];
    double want, got = 77;
    int64_t i;
    memcpy(copy, v.ptr, v.len);
    copy[v.len] = '\0';
    want = strtod(copy, NULL);
    must(ms_json_f64(v, &got) == (isinf(want) ? MS_E_RANGE : MS_OK), "f64 result", text);
    if (isinf(want)) return;
    must(memcmp(&want, &got, sizeof got) == 0, "f64 is not strtod's", text);
    if (json_is_integer(j))
        must(ms_json_i64(v, &i) == MS_OK && i == json_integer_value(j), "i64", text);
}

static void same_object(ms_str v, json_t *j, ms_str text)
{
    ms_json_iter it = ms_json_iterate(v);
    size_t distinct = 0;
    while (ms_json_next(&it)) {
        ms_str key, last;
        char name[FUZZ_MOST + 1];
        must(ms_json_string(it.key, &arena, &key) == MS_OK, "a key is no string", text);
        memcpy(name, key.ptr, key.len);
        name[key.len] = '\0';
        json_t *member = json_object_get(j, name);
        must(member != NULL && ms_json_member(v, key, &last), "a member is lost", text);
        must(last.ptr >= it.value.ptr, "not the last member of that name", text);
        if (last.ptr != it.value.ptr) continue;
        distinct++;
        same_value(it.value, member, text);
    }
    must(distinct == json_object_size(j), "another number of members", text);
}

static void same_array(ms_str v, json_t *j, ms_str text)
{
    ms_json_iter it = ms_json_iterate(v);
    size_t n = 0;
    while (ms_json_next(&it)) {
        must(n < json_array_size(j), "too many elements", text);
        same_value(it.value, json_array_get(j, n++), text);
    }
    must(n == json_array_size(j), "too few elements", text);
}

static void same_value(ms_str v, json_t *j, ms_str text)
{
    static const ms_json_kind kinds[] = {MS_JSON_OBJECT, MS_JSON_ARRAY,  MS_JSON_STRING,
                                         MS_JSON_NUMBER, MS_JSON_NUMBER, MS_JSON_TRUE,
                                         MS_JSON_FALSE,  MS_JSON_NULL};
    bool flag = true;
    ms_str s;
    must(ms_json_kind_of(v) == kinds[json_typeof(j)], "another kind", text);
    must(inside(v, text), "a value outside", text);
    switch (json_typeof(j)) {
    case JSON_OBJECT: same_object(v, j, text); break;
    case JSON_ARRAY: same_array(v, j, text); break;
    case JSON_STRING:
        must(ms_json_string(v, &arena, &s) == MS_OK && s.len == json_string_length(j) &&
                 memcmp(s.ptr, json_string_value(j), s.len) == 0,
             "another string", text);
        must(ms_json_string_is(v, s), "string_is says no", text);
        break;
    case JSON_INTEGER:
    case JSON_REAL: same_number(v, j, text); break;
    case JSON_TRUE:
    case JSON_FALSE:
        must(test_json_bool(v, &flag) == MS_OK && flag == json_is_true(j), "bool", text);
        break;
    default: break;
    }
}


/* ---- writing ---- */

static ms_str written_raw(ms_str v, bool pretty)
{
    ms_json_writer w;
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_json_init(&w, ms_buf_write, &out, pretty);
    ms_json_put_raw(&w, v);
    must(ms_json_finish(&w) == MS_OK, "a checked value cannot be written", v);
    return ms_buf_text(&out);
}

/* Built anew from what the getters say. */
static void build(ms_json_writer *w, ms_str v)
{
    ms_str s;
    bool flag = false;
    ms_json_kind kind = ms_json_kind_of(v);
    ms_json_iter it = ms_json_iterate(v);
    switch (kind) {
    case MS_JSON_NULL: test_json_put_null(w); return;
    case MS_JSON_TRUE:
    case MS_JSON_FALSE:
        (void)test_json_bool(v, &flag);
        test_json_put_bool(w, flag);
        return;
    case MS_JSON_STRING:
        must(ms_json_string(v, &arena, &s) == MS_OK, "a string is not decoded", v);
        ms_json_put_string(w, s);
        return;
    case MS_JSON_ARRAY:
    case MS_JSON_OBJECT: ms_json_begin(w, kind); break;
    default: ms_json_put_raw(w, v); return;
    }
    while (ms_json_next(&it)) {
        if (it.key.ptr != NULL) {
            must(ms_json_string(it.key, &arena, &s) == MS_OK, "a key is not decoded", v);
            ms_json_key(w, s);
        }
        build(w, it.value);
    }
    ms_json_end(w);
}

static ms_str built(ms_str v)
{
    ms_json_writer w;
    ms_buf out;
    memset(&out, 0, sizeof out);
    out.arena = &arena;
    ms_json_init(&w, ms_buf_write, &out, false);
    build(&w, v);
    must(ms_json_finish(&w) == MS_OK, "values that were read cannot be written", v);
    return ms_buf_text(&out);
}

/* Is it what jansson has read? tree NULL: only whether it is JSON. */
static void must_mean(ms_str text, json_t *tree, const char *what)
{
    ms_error err;
    if (ms_json_check(text, NULL, NULL, &err) != MS_OK) {
        fuzz_show(what, text);
        fuzz_fail("%s is no JSON: %s", what, err.message);
    }
    json_t *again = tree != NULL ? fuzz_jansson(text, 0, NULL) : NULL;
    must(tree == NULL || (again != NULL && json_same(tree, again, 0, NULL)), what, text);
}

static void write_back(ms_str v, json_t *tree)
{
    ms_str raw = written_raw(v, false), pretty = written_raw(v, true), new = built(v);
    must_mean(raw, tree, "written as spelled");
    must_mean(pretty, tree, "written with white space");
    must_mean(new, tree, "written anew");
    must(ms_str_equal(written_raw(raw, false), raw), "written twice is another text", v);
    must(ms_str_equal(written_raw(pretty, false), raw), "white space matters", v);
    must(ms_str_equal(built(new), new), "built twice is another text", v);
}


/* ---- one input ---- */

static void error_in_order(ms_str text, const ms_error *err)
{
    ms_error sub;
    uint32_t line = 1, column = 1;
    must(err->code == MS_E_SYNTAX || err->code == MS_E_UTF8 || err->code == MS_E_DEPTH,
         "an error of another kind", text);
    must(err->offset <= text.len, "an error behind the end", text);
    for (size_t i = 0; i < err->offset; i++)
        if (text.ptr[i] == '\n') line++, column = 1;
        else column++;
    must(err->line == line && err->column == column, "line or column is off", text);
    must(memchr(err->message, '\0', sizeof err->message) != NULL, "no message", text);
    ms_str before = ms_str_n(text.ptr, (size_t)err->offset);
    must(ms_json_check(before, NULL, NULL, &sub) == MS_OK ||
             (sub.code == MS_E_SYNTAX && sub.offset == before.len),
         "an error before the first error", text);
}

static void strictly(ms_str text, ms_result got, ms_str v)
{
    char copy[FUZZ_MOST];
    bool patched;
    if (memchr(text.ptr, '\0', text.len) != NULL) {
        must(got != MS_OK, "a NUL byte is accepted", text);
        return;
    }
    memcpy(copy, text.ptr, text.len);
    json_t *tree = jansson_reads(copy, text.len, &patched);
    if (tree == NULL) {
        must(got != MS_OK, "only jansson refuses", text);
        return;
    }
    if (nesting(copy, text.len) > MS_JSON_MAX_DEPTH) {
        must(got == MS_E_DEPTH, "too deep, but not said so", text);
        return;
    }
    must(got == MS_OK, "only jansson accepts", text);
    if (!patched) same_value(v, tree, text);
    write_back(v, patched ? NULL : tree);
}

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    ms_str text = ms_str_n((const char *)bytes, size), v = {NULL, 0}, mended;
    ms_json_opts repair = {0, true};
    ms_error err;
    if (size == 0) return;
    ms_result got = ms_json_check(text, NULL, &v, &err);
    if (got != MS_OK) error_in_order(text, &err);
    visit(text);
    strictly(text, got, v);
    ms_result mild = ms_json_check(text, &repair, &mended, &err);
    must(got != MS_OK || (mild == MS_OK && ms_str_equal(mended, v)),
         "repair refuses what is good", text);
    if (mild == MS_OK && got != MS_OK) {
        visit(mended);
        must_mean(built(mended), NULL, "written anew with repair");
    }
    ms_arena_reset(&arena);
}
