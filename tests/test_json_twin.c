/* JSON: random and broken texts beside jansson, read and written; UTF-8 and strings, decoded
 * and written, beside twins of their own; and that no function looks outside its view,
 * checked or not. */
#define _GNU_SOURCE
#include "fence.h"
#include "json_maker.h"
#include "json_twin.h"


/* ---- UTF-8 ---- */

/* Any bytes become a JSON string, and the same name of a member, with U+FFFD for what is
 * not UTF-8; the library and jansson decode it to what went in. */
static bool is_written_like_the_twin(ms_str text, ms_arena *arena)
{
    static char want[3 * TEXT_MAX];
    ms_json_writer w;
    ms_buf out = {arena, NULL, 0, 0};
    ms_str s;
    size_t len = naive_repair(text, want);
    ms_json_init(&w, ms_buf_write, &out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, text);
    ms_json_put_string(&w, text);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return false;
    ms_str json = ms_str_n(out.ptr + 1, (out.len - 3) / 2);
    if (!same(json, json.ptr + json.len + 1, json.len)) return false;
    if (ms_json_check(ms_buf_text(&out), NULL, NULL, NULL) != MS_OK) return false;
    json_t *back = json_parse_n(json.ptr, json.len);
    bool right = back != NULL && same(ms_str_n(want, len), json_string_value(back),
                                      json_string_length(back));
    json_decref(back);
    return right && ms_json_string(json, arena, &s) == MS_OK && same(s, want, len);
}

/* All sequences of up to three bytes, and all that begin a sequence of four; some of
 * them are written, too. */
static void utf8_is_checked_like_the_twin(void **state)
{
    ms_arena arena;
    size_t stride = test_scale() >= 100 ? 1 : 251;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (uint32_t n = 0; n < (1u << 24); n += (uint32_t)stride) {
        unsigned char b[4] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8),
                              (unsigned char)n, 0x80};
        size_t len = b[0] >= 0xF0 ? 4 : 3, want, bad = 77;
        bool fine = naive_utf8(b, len, &want);
        ms_str text = ms_str_n((const char *)b, len);
        bool good = ms_utf8_check(text, &bad);
        if (good != fine || bad != (good ? 77 : want))
            fail_msg("%02x %02x %02x: %lu", b[0], b[1], b[2], (unsigned long)bad);
        if (n / stride % 64 != 0) continue;
        if (!is_written_like_the_twin(text, &arena))
            fail_msg("%02x %02x %02x: written otherwise", b[0], b[1], b[2]);
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
    assert_true(ms_utf8_check(ms_str_of(NULL), NULL));
    assert_true(ms_utf8_check(MS_STR(""), NULL));
}


/* ---- generated and broken texts against jansson ---- */

static uint32_t escaped_unit(const char *bytes, size_t left)
{
    char hex[5] = {0};
    if (left < 6 || bytes[0] != '\\' || bytes[1] != 'u') return 0;
    for (size_t i = 0; i < 4; i++) {
        if (strchr("0123456789abcdefABCDEF", bytes[2 + i]) == NULL) return 0;
        hex[i] = bytes[2 + i];
    }
    return (uint32_t)strtoul(hex, NULL, 16);
}

/* Makes a text good that is bad only in what repair accepts: each byte that is not UTF-8
 * becomes '?', each lone surrogate \u003F. */
static void sanitize(char *bytes, size_t len)
{
    bool in_string = false;
    for (size_t i = 0, n, bad; i < len; i += n > 0 ? n : 1) {
        n = naive_character((const unsigned char *)bytes + i, len - i, &bad);
        if (n == 0) bytes[i] = '?';
    }
    for (size_t i = 0; i < len; i++) {
        uint32_t unit = in_string ? escaped_unit(bytes + i, len - i) : 0;
        if (bytes[i] == '"') in_string = !in_string;
        if (!in_string || bytes[i] != '\\') continue;
        if (unit >= 0xD800 && unit < 0xDC00) {
            uint32_t low = escaped_unit(bytes + i + 6, len - i - 6);
            if (low >= 0xDC00 && low < 0xE000) {
                i += 11;
                continue;
            }
        }
        if (unit >= 0xD800 && unit < 0xE000) memcpy(bytes + i, "\\u003F", 6);
        i += unit != 0 ? 5 : 1;
    }
}

/* The same verdict as jansson's, the same values; else what is wrong. A NUL byte outside
 * strings is sometimes skipped by jansson, and never JSON: it is not asked then. */
static const char *disagrees(const char *bytes, size_t len, bool repair, ms_arena *arena)
{
    static char good[TEXT_MAX];
    ms_json_opts opts = {0, repair};
    ms_str json = at_end(bytes, len), v;
    ms_error err;
    bool judges;
    ms_result got = ms_json_check(json, &opts, &v, &err);
    const char *why = got == MS_OK ? visit(v, SIZE_MAX, arena)
                                   : error_is_odd(json, &opts, &err);
    if (why == NULL) why = visit(json, SIZE_MAX, arena);
    if (why != NULL) return why;
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return got == MS_OK ? "a NUL byte is accepted" : NULL;
    memcpy(good, bytes, len);
    if (repair) sanitize(good, len);
    json_t *tree = jansson_reads(good, len, &judges);
    if (tree == NULL && judges) return got == MS_OK ? "only jansson refuses" : NULL;
    if (tree == NULL)
        return got == MS_OK && !repair ? written_differs(v, NULL, arena) : NULL;
    if (nesting(good, len) > MS_JSON_MAX_DEPTH) {
        why = got == MS_E_DEPTH ? NULL : "too deep, but not said so";
    } else if (got != MS_OK) {
        why = "only jansson accepts";
    } else if (!repair) {
        json_twin twin = {json, arena};
        why = differs(&twin, v, tree);
        if (why == NULL) why = written_differs(v, tree, arena);
    }
    json_decref(tree);
    return why;
}

static void text_is_read_like_jansson(void **state)
{
    static maker m;
    ms_arena arena;
    size_t accepted = 0, times = test_times(100000);
    (void)state;
    memset(&arena, 0, sizeof arena);
    m.random = test_seed();
    for (size_t i = 0; i < times; i++) {
        make_text(&m);
        uint64_t most = below(&m, 8) ? 4 : 12;
        for (uint64_t n = below(&m, 2) ? 1 + below(&m, most) : 0; n > 0; n--) mutate(&m);
        const char *why = visit(at_start(m.bytes, m.len), SIZE_MAX, &arena);
        if (why == NULL) why = disagrees(m.bytes, m.len, false, &arena);
        if (why == NULL) why = disagrees(m.bytes, m.len, true, &arena);
        if (why != NULL) {
            show(why, m.bytes, m.len);
            fail_msg("text %lu: %s", (unsigned long)i, why);
        }
        accepted += ms_json_check(ms_str_n(m.bytes, m.len), NULL, NULL, NULL) == MS_OK;
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
    printf("%lu of %lu texts accepted\n", (unsigned long)accepted, (unsigned long)times);
    assert_true(accepted > times / 3 && accepted < times - times / 10);
}

/* A decoder of our own: one U+FFFD for each mistake. */
static size_t decode_twin(const char *s, size_t len, char *to)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    for (size_t i = 1, step, bad; i < len - 1; i += step) {
        step = naive_character((const unsigned char *)s + i, len - 1 - i, &bad);
        if (s[i] != '\\') {
            if (step == 0) step = bad;
            n += naive_repair(ms_str_n(s + i, step), to + n);
            continue;
        }
        if (s[i + 1] != 'u') {
            to[n++] = meant[strchr(names, s[i + 1]) - names];
            step = 2;
            continue;
        }
        uint32_t unit = escaped_unit(s + i, len - 1 - i);
        uint32_t low = escaped_unit(s + i + 6, len - 7 - i);
        step = 6;
        if (unit >= 0xD800 && unit < 0xDC00 && low >= 0xDC00 && low < 0xE000) {
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            step = 12;
        }
        n += put_utf8(to + n, unit >= 0xD800 && unit < 0xE000 ? 0xFFFD : unit);
    }
    return n;
}

static void string_is_decoded_and_written_like_the_twin(void **state)
{
    static maker m;
    static char want[3 * TEXT_MAX];
    ms_json_opts repair = {0, true};
    ms_arena arena;
    size_t done = 0, times = test_times(100000);
    (void)state;
    memset(&arena, 0, sizeof arena);
    m.random = test_seed() + 1;
    for (size_t i = 0; i < times; i++) {
        ms_str v, s;
        m.len = 0;
        make_string(&m);
        for (uint64_t n = below(&m, 5); n > 0 && m.len > 2; n--) {
            size_t at = 1 + (size_t)below(&m, m.len - 2);
            const char *lone = below(&m, 2) ? "\\uDbFf" : "\\udFfF\\udC00";
            if (below(&m, 20) == 0) m.bytes[at] = (char)below(&m, 0x100);
            else if (below(&m, 3)) m.bytes[at] = (char)(0x80 + below(&m, 0x80));
            else if (m.len - at > 13) memcpy(m.bytes + at, lone, strlen(lone));
        }
        v = at_end(m.bytes, m.len);
        if (!is_written_like_the_twin(ms_str_n(v.ptr + 1, v.len - 2), &arena)) {
            show("written", v.ptr, v.len);
            fail_msg("text %lu", (unsigned long)i);
        }
        if (ms_json_check(v, &repair, NULL, NULL) != MS_OK) continue;
        size_t len = decode_twin(v.ptr, v.len, want);
        bool right = ms_json_string(v, &arena, &s) == MS_OK && same(s, want, len) &&
                     ms_json_string_is(v, s);
        if (right && len > 0) right = !ms_json_string_is(v, ms_str_n(s.ptr, len - 1));
        if (!right) {
            show("string", v.ptr, v.len);
            show("decoded", s.ptr, s.len);
            show("expected", want, len);
            fail_msg("text %lu", (unsigned long)i);
        }
        done++;
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
    assert_true(done > times / 2);
}


/* ---- views are never left ---- */

static const char *const samples[] = {
    "{\"a\":1,\"b\":[true,false,null],\"c\":{\"a\":\"x\\u0041\\ud834\\udd1e\"}}",
    " [ -12.5e+30 , \"\xe2\x82\xac\xf0\x9d\x84\x9e\" , { \"a\" : { } , \"a\" : [ ] } ] ",
    "\"abc\\n\\\"\\\\\xc3\xa9 \\uD800\"",
    "-123456789012345678901234567890.5e-17",
    "[[[[[[{\"a\":[{\"a\":[\"]]]\"]}]}]]]]]]",
    "{\"\\u0061\":\"\\u0061\",\"abc\":\"abc\",\"a\":nulltrue}",
    "tru\"e[{", "{\"a\"\"b\"}", "[,,,]", "{,}", "{:}", "[:]", "{\"a\":}", "]]]]", "}}",
    ",", ":", "{\"a\" \"a\" : : 1 1 , , }", "[1 2 3]", "[\"a\":1]", "{1:2,3}", "{null:1}",
    "[\\]", "\\",
};

/* Every piece of every sample, right before and right behind a forbidden page, in every
 * reading function, without a check. */
static void part_of_a_text_is_read_inside_its_fence(void **state)
{
    ms_arena arena;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (size_t n = 0; n < COUNT(samples); n++) {
        size_t len = strlen(samples[n]);
        for (size_t from = 0; from <= len; from++) {
            for (size_t to = from; to <= len; to++) {
                const char *piece = samples[n] + from;
                const char *why = visit(at_end(piece, to - from), SIZE_MAX, &arena);
                if (why == NULL) why = visit(at_start(piece, to - from), SIZE_MAX, &arena);
                if (why != NULL) {
                    show(why, piece, to - from);
                    fail();
                }
            }
        }
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_checked_like_the_twin),
        cmocka_unit_test(text_is_read_like_jansson),
        cmocka_unit_test(string_is_decoded_and_written_like_the_twin),
        cmocka_unit_test(part_of_a_text_is_read_inside_its_fence),
    };
    return cmocka_run_group_tests_name("json_twin", tests, fence_up, NULL);
}
