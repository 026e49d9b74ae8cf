/* Reading JSON: random and broken texts beside jansson, UTF-8 and decoded strings beside
 * twins of their own, and that no function looks outside its view, checked or not. */
#define _GNU_SOURCE
#include "fence.h"
#include "json_twin.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])


/* ---- UTF-8 ---- */

/* How many bytes at s form one code point of UTF-8; 0: none do. */
static size_t utf8_step(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3
             : s[0] < 0xF5 ? 4 : 0;
    if (n > left) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    if (n == 3 && s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (n == 3 && s[0] == 0xED && s[1] > 0x9F) return 0;
    if (n == 4 && s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (n == 4 && s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return n;
}

/* All sequences of up to three bytes, and all that begin a sequence of four. */
static void utf8_is_checked_like_the_twin(void **state)
{
    size_t stride = test_scale() >= 100 ? 1 : 251;
    (void)state;
    for (uint32_t n = 0; n < (1u << 24); n += (uint32_t)stride) {
        unsigned char b[4] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8),
                              (unsigned char)n, 0x80};
        size_t len = b[0] >= 0xF0 ? 4 : 3, want = 0, bad = 77;
        for (size_t step; want < len && (step = utf8_step(b + want, len - want)) > 0;)
            want += step;
        bool good = ms_utf8_check(ms_str_n((const char *)b, len), &bad);
        if (good != (want == len) || bad != (good ? 77 : want))
            fail_msg("%02x %02x %02x: %lu", b[0], b[1], b[2], (unsigned long)bad);
    }
    assert_true(ms_utf8_check(ms_str_of(NULL), NULL));
    assert_true(ms_utf8_check(MS_STR(""), NULL));
}


/* ---- generated and broken texts against jansson ---- */

enum { TEXT_MAX = 16384 };

typedef struct maker {
    uint64_t random;
    size_t len;
    char bytes[TEXT_MAX];
} maker;

static uint64_t below(maker *m, uint64_t n)
{
    return test_below(&m->random, n);
}

/* A text that becomes too long is cut off: then it is one of the broken ones. */
static void add(maker *m, const char *bytes, size_t len)
{
    if (len > TEXT_MAX - m->len) len = TEXT_MAX - m->len;
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static void add_text(maker *m, const char *bytes)
{
    add(m, bytes, strlen(bytes));
}

static void make_space(maker *m)
{
    if (below(m, 4) != 0) return;
    for (uint64_t n = below(m, 4); n > 0; n--) add(m, &" \t\n\r"[below(m, 4)], 1);
}

static void make_escape(maker *m, uint32_t unit)
{
    char text[8];
    unit &= 0xFFFF;
    snprintf(text, sizeof text, below(m, 2) ? "\\u%04x" : "\\u%04X", (unsigned)unit);
    add(m, text, 6);
}

/* One code point or escape; now and then one that is not allowed. */
static void make_character(maker *m)
{
    static const char *const escapes[] = {"\\\"", "\\\\", "\\/", "\\b",
                                          "\\f",  "\\n",  "\\r", "\\t"};
    char utf8[4];
    uint32_t c = (uint32_t)below(m, 0x10F800);
    if (c >= 0xD800) c += 0x800; /* anything but surrogates */
    switch (below(m, 10)) {
    case 0: add_text(m, escapes[below(m, 8)]); break;
    case 1: make_escape(m, c < 0x10000 ? c : below(m, 40) ? 0x20 + c % 0x60 : 0); break;
    case 2:
        make_escape(m, 0xD800 + (uint32_t)below(m, 0x400));
        if (below(m, 100) != 0) make_escape(m, 0xDC00 + (uint32_t)below(m, 0x400));
        break;
    case 3: add(m, utf8, put_utf8(utf8, 0x80 + c % 0x780)); break;
    case 4: add(m, utf8, put_utf8(utf8, c < 0x80 ? c | 0x60 : c)); break;
    default: add(m, utf8, put_utf8(utf8, 'a' + c % 26));
    }
    if (below(m, 2000) == 0) add(m, &"\x80\xbf\xc3\xe2\xed\xf0\xf4\xff"[below(m, 8)], 1);
}

static void make_string(maker *m)
{
    add_text(m, "\"");
    for (uint64_t n = below(m, below(m, 10) ? 8 : 60); n > 0; n--) make_character(m);
    add_text(m, "\"");
}

/* Names come often from a short list, one of them spelled in two ways. */
static void make_name(maker *m)
{
    static const char *const names[] = {"\"a\"", "\"b\"", "\"\\u0061\"", "\"\"",
                                        "\"ab\""};
    if (below(m, 2)) add_text(m, names[below(m, 5)]);
    else make_string(m);
}

static void make_digits(maker *m, uint64_t n)
{
    while (n-- > 0) add(m, &"0123456789"[below(m, 10)], 1);
}

static void make_number(maker *m)
{
    static const char *const edges[] = {
        "0", "-0", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e400",
        "-1E+999", "1e-400", "5e-324", "1.7976931348623157e308",
        "1.7976931348623159e308"};
    if (below(m, 6) == 0) {
        add_text(m, edges[below(m, COUNT(edges))]);
        return;
    }
    if (below(m, 3) == 0) add_text(m, "-");
    if (below(m, 8) == 0) {
        add_text(m, "0");
    } else {
        add(m, &"123456789"[below(m, 9)], 1);
        make_digits(m, below(m, below(m, 3) ? 4 : 24));
    }
    if (below(m, 2)) {
        add_text(m, ".");
        make_digits(m, 1 + below(m, below(m, 50) ? 6 : 900));
    }
    if (below(m, 3) == 0) {
        static const char *const marks[] = {"e", "E", "e+", "E+", "e-", "E-"};
        add_text(m, marks[below(m, 6)]);
        make_digits(m, 1 + below(m, 3));
    }
}

static void make_value(maker *m, unsigned depth)
{
    uint64_t kind = below(m, depth < 6 ? 9 : 5);
    make_space(m);
    if (kind == 0) {
        add_text(m, below(m, 2) ? "true" : below(m, 2) ? "false" : "null");
    } else if (kind < 3) {
        make_number(m);
    } else if (kind < 5) {
        make_string(m);
    } else {
        bool object = kind < 7;
        add_text(m, object ? "{" : "[");
        for (uint64_t n = below(m, 5), i = 0; i < n; i++) {
            if (i > 0) add_text(m, ",");
            make_space(m);
            if (object) {
                make_name(m);
                make_space(m);
                add_text(m, ":");
            }
            make_value(m, depth + 1);
        }
        make_space(m);
        add_text(m, object ? "}" : "]");
    }
    make_space(m);
}

/* Up to 700 arrays and objects around a value, often about as many as are allowed. */
static void make_deep(maker *m)
{
    bool object[700];
    size_t n = below(m, 3) ? 500 + (size_t)below(m, 20) : (size_t)below(m, 700);
    for (size_t i = 0; i < n; i++) {
        object[i] = below(m, 4) == 0;
        add_text(m, object[i] ? "{\"k\":" : "[");
    }
    make_value(m, (unsigned)below(m, 7));
    while (n-- > 0) add_text(m, object[n] ? "}" : "]");
}

static void make_text(maker *m)
{
    m->len = 0;
    if (below(m, 300) == 0) make_deep(m);
    else make_value(m, 0);
}

/* One change: a bit, a byte, a piece out, a piece in, a piece twice, the end off. */
static void mutate(maker *m)
{
    static const char likely[] = "[]{}\",:\\0123456789-+.eEutfn \n"
                                 "\x80\xc3\xe2\xef\xff\x1f"; /* and NUL */
    char piece[32];
    size_t at = (size_t)below(m, m->len + 1), n = (size_t)below(m, 8);
    if (n > m->len - at) n = m->len - at;
    switch (below(m, 6)) {
    case 0: if (n > 0) m->bytes[at] = (char)(m->bytes[at] ^ (1 << below(m, 8))); return;
    case 1: if (n > 0) m->bytes[at] = likely[below(m, sizeof likely)]; return;
    case 2: break;
    case 3:
        for (size_t i = 0; i < 2; i++) piece[i] = likely[below(m, sizeof likely)];
        if (m->len + 2 > TEXT_MAX) return;
        memmove(m->bytes + at + 2, m->bytes + at, m->len - at);
        memcpy(m->bytes + at, piece, 2);
        m->len += 2;
        return;
    case 4:
        if (m->len + n > TEXT_MAX) return;
        memmove(m->bytes + at + n, m->bytes + at, m->len - at);
        m->len += n;
        return;
    default: if (below(m, 4) == 0) m->len = at; return;
    }
    memmove(m->bytes + at, m->bytes + at + n, m->len - at - n);
    m->len -= n;
}

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
    for (size_t i = 0, n; i < len; i += n) {
        n = utf8_step((const unsigned char *)bytes + i, len - i);
        if (n == 0) bytes[i] = '?', n = 1;
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
    static char patched[TEXT_MAX];
    ms_json_opts opts = {0, repair};
    ms_str json = at_end(bytes, len), v;
    ms_error err;
    bool spelled, names;
    ms_result got = ms_json_check(json, &opts, &v, &err);
    const char *why = got == MS_OK ? visit(v, SIZE_MAX, arena)
                                   : error_is_odd(json, &opts, &err);
    if (why == NULL) why = visit(json, SIZE_MAX, arena);
    if (why != NULL) return why;
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return got == MS_OK ? "a NUL byte is accepted" : NULL;
    memcpy(patched, bytes, len);
    if (repair) sanitize(patched, len);
    json_t *tree = jansson_reads(patched, len, &spelled, &names);
    if (tree == NULL) return got == MS_OK ? "only jansson refuses" : NULL;
    if (nesting(patched, len) > MS_JSON_MAX_DEPTH) {
        why = got == MS_E_DEPTH ? NULL : "too deep, but not said so";
    } else if (got != MS_OK) {
        why = "only jansson accepts";
    } else if (!repair) {
        if (names) ms_json_check(json = at_end(patched, len), NULL, &v, NULL);
        json_twin twin = {json, patched, arena};
        why = differs(&twin, v, tree);
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
        for (uint64_t n = below(&m, 2) ? 1 + below(&m, 4) : 0; n > 0; n--) mutate(&m);
        const char *why = disagrees(m.bytes, m.len, false, &arena);
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

/* How many of these bytes, which do not form a code point, begin one all the same. */
static size_t bad_run(const char *s, size_t left)
{
    for (size_t n = left < 3 ? left : 3; n > 1; n--) {
        unsigned char whole[4];
        memset(whole, 0x80, 4);
        memcpy(whole, s, n);
        if (utf8_step(whole, 4) > n) return n;
    }
    return 1;
}

/* A decoder of our own: one U+FFFD for each mistake. */
static size_t decode_twin(const char *s, size_t len, char *to)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    for (size_t i = 1, step; i < len - 1; i += step) {
        step = utf8_step((const unsigned char *)s + i, len - 1 - i);
        if (s[i] != '\\') {
            if (step > 0) memcpy(to + n, s + i, step);
            n += step > 0 ? step : put_utf8(to + n, 0xFFFD);
            if (step == 0) step = bad_run(s + i, len - 1 - i);
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

static void string_is_decoded_like_the_twin(void **state)
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
            const char *lone = below(&m, 2) ? "\\uDbFf" : "\\udC00";
            if (below(&m, 3)) m.bytes[at] = (char)(0x80 + below(&m, 0x80));
            else if (m.len - at > 7) memcpy(m.bytes + at, lone, 6);
        }
        v = at_end(m.bytes, m.len);
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

/* The same on the heap, where the sanitizer watches. */
static void part_of_a_text_is_read_inside_its_block(void **state)
{
    ms_arena arena;
    (void)state;
    memset(&arena, 0, sizeof arena);
    for (size_t n = 0; n < COUNT(samples); n++) {
        for (size_t len = 1; len <= strlen(samples[n]); len++) {
            char *block = (char *)malloc(len);
            assert_non_null(block);
            memcpy(block, samples[n], len);
            assert_null(visit(ms_str_n(block, len), SIZE_MAX, &arena));
            (void)ms_json_check(ms_str_n(block, len), NULL, NULL, NULL);
            free(block);
        }
    }
    ms_arena_deinit(&arena);
}

/* What no check let through, cut and changed at random. */
static void broken_text_is_read_inside_its_fence(void **state)
{
    static maker m;
    ms_arena arena;
    size_t times = test_times(20000);
    (void)state;
    memset(&arena, 0, sizeof arena);
    m.random = test_seed() + 2;
    for (size_t i = 0; i < times; i++) {
        make_text(&m);
        for (uint64_t n = below(&m, 12); n > 0; n--) mutate(&m);
        if (m.len > 600) m.len = 600;
        size_t from = below(&m, 2) ? (size_t)below(&m, m.len + 1) : 0;
        const char *why = visit(at_end(m.bytes + from, m.len - from), SIZE_MAX, &arena);
        if (why == NULL) why = visit(at_start(m.bytes, m.len), SIZE_MAX, &arena);
        if (why != NULL) {
            show(why, m.bytes, m.len);
            fail_msg("text %lu, from %lu", (unsigned long)i, (unsigned long)from);
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
        cmocka_unit_test(string_is_decoded_like_the_twin),
        cmocka_unit_test(part_of_a_text_is_read_inside_its_fence),
        cmocka_unit_test(part_of_a_text_is_read_inside_its_block),
        cmocka_unit_test(broken_text_is_read_inside_its_fence),
    };
    return cmocka_run_group_tests_name("json_twin", tests, fence_up, NULL);
}
