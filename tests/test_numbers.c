/* Numbers to and from text: ms_f64_write and ms_f64_read against libc's printf and strtod
 * and against jansson, on random bits, powers, neighbours, subnormals and texts halfway
 * between two doubles. The oracles of libc follow the locale; the library must not. */
#define _GNU_SOURCE
#include "support.h"

#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>

static double of_bits(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* Equal to the sign of zero. */
static bool identical(double a, double b)
{
    return bits_of(a) == bits_of(b);
}

/* What ms_f64_write must give besides its digits: at most MS_F64_MAX bytes, JSON, nothing
 * written behind its end. Returns the text, NUL-terminated. */
static const char *written(double d, char text[MS_F64_MAX + 1])
{
    size_t len;
    memset(text, '#', MS_F64_MAX + 1);
    len = ms_f64_write(d, text);
    if (len == 0 || len > MS_F64_MAX) fail_msg("%.17g has %u bytes", d, (unsigned)len);
    for (size_t i = len; i <= MS_F64_MAX; i++) {
        if (text[i] != '#') fail_msg("%.17g: a byte behind the end", d);
    }
    text[len] = '\0';
    if (ms_json_check(ms_str_n(text, len), NULL, NULL, NULL) != MS_OK)
        fail_msg("%.17g: %s is not JSON", d, text);
    return text;
}

/* The significant digits of a number's text, without zeros at either end. */
static size_t significant(const char *text, char digits[MS_F64_MAX])
{
    size_t n = 0;
    for (; *text != '\0' && *text != 'e' && *text != 'E'; text++) {
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0')) digits[n++] = *text;
    }
    while (n > 0 && digits[n - 1] == '0') n--;
    return n;
}

/* Does any text with n digits read back as d? The nearest one is printf's; the one beside
 * it may do where the doubles on both sides of d stand at unlike distances. */
static bool some_text_of(double d, int n)
{
    char near[40], text[40];
    snprintf(near, sizeof near, "%.*e", n - 1, d);
    char *mark = strchr(near, 'e');
    int exponent = atoi(mark + 1) - (n - 1);
    unsigned long long digits = 0;
    for (char *c = near; c < mark; c++) {
        if (*c >= '0' && *c <= '9') digits = 10 * digits + (unsigned)(*c - '0');
    }
    for (unsigned long long i = digits - 1; i <= digits + 1; i++) {
        snprintf(text, sizeof text, "%s%llue%d", d < 0 ? "-" : "", i, exponent);
        if (identical(strtod(text, NULL), d)) return true;
    }
    return false;
}

/* Written and read back by everybody, and with as few digits as can be. */
static void round_trip(double d)
{
    char text[MS_F64_MAX + 1], digits[MS_F64_MAX];
    double back = 77;
    size_t n = significant(written(d, text), digits);
    if (!identical(strtod(text, NULL), d)) fail_msg("%.17g: strtod of %s", d, text);
    if (ms_f64_read(ms_str_of(text), &back) != MS_OK || !identical(back, d))
        fail_msg("%.17g: %s reads as %.17g", d, text, back);
    if (d != 0 && n == 0) fail_msg("%.17g: no digits in %s", d, text);
    if (n > 1 && some_text_of(d, (int)n - 1)) fail_msg("%.17g: %s is long", d, text);
}

/* Our reading of a text against strtod's. */
static void same_as_strtod(const char *text)
{
    double want = strtod(text, NULL), got = 77;
    ms_result result = ms_f64_read(ms_str_of(text), &got);
    if (result != (isinf(want) ? MS_E_RANGE : MS_OK))
        fail_msg("%.900s: result %d", text, (int)result);
    if (!identical(got, isinf(want) ? 77 : want))
        fail_msg("%.900s: %.17g instead of %.17g", text, got, want);
}

/* A double, the doubles beside it, and their texts of up to 20 digits. */
static void around(double d)
{
    double all[3] = {nextafter(d, -INFINITY), d, nextafter(d, INFINITY)};
    char text[64];
    for (size_t i = 0; i < 3; i++) {
        if (isinf(all[i])) continue;
        round_trip(all[i]);
        round_trip(-all[i]);
        for (int n = 0; n < 20; n += 1 + n / 17) {
            snprintf(text, sizeof text, "%.*e", n, all[i]);
            same_as_strtod(text);
        }
    }
}


/* ---- tests ---- */

static void random_bits(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = test_times(300000); i > 0; i--) {
        double d = of_bits(test_random(&random));
        char text[40];
        if (!isfinite(d)) continue;
        round_trip(d);
        snprintf(text, sizeof text, "%.17g", d);
        same_as_strtod(text);
    }
    test_tally("numbers written and read", test_times(300000));
}

/* Quotients that are no doubles but lie so near to the middle of two that rounding to the
 * 64 bits of x87 first gives the other neighbour. */
static void quotients_are_rounded_once(void **state)
{
    const struct {
        const char *text;
        double d;
    } cases[] = {
        {"1455e-14", 0x1.ffeebfc8b81b5p-37},
        {"3363744e-19", 0x1.7ab951e105843p-42},
        {"582e-13", 0x1.ffeebfc8b81b5p-35},
        {"5267552986214e15", 0x1.10537bb9118e7p+92},
        {"78401331862880e-20", 0x1.a4e9f85342a59p-21},
        {"64807407400e-11", 0x1.4bd05d726e53fp-1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = 77;
        assert_int_equal(ms_f64_read(ms_str_of(cases[i].text), &got), MS_OK);
        if (!identical(got, cases[i].d)) fail_msg("%s: %a", cases[i].text, got);
    }
}

/* As programs have them: few digits, integers, times, fractions. */
static void everyday_numbers(void **state)
{
    uint64_t random = test_seed() + 1;
    (void)state;
    for (size_t i = test_times(300000); i > 0; i--) {
        uint64_t limit = UINT64_C(1) << test_below(&random, 63);
        double whole = (double)test_below(&random, limit);
        double scale = pow(10, (double)test_below(&random, 12));
        round_trip(whole);
        round_trip(whole / scale);
        round_trip(1700000000 + (double)test_below(&random, 1000000000) / 1e6);
        round_trip((double)test_below(&random, 1000) / 1000);
    }
}

static void powers_and_neighbours(void **state)
{
    int step = test_scale() < 100 ? 5 : 1;
    (void)state;
    for (int e = -1074; e <= 1023; e++) around(ldexp(1, e));
    for (int e = -324; e <= 308; e += step) {
        char text[16];
        for (int digit = 1; digit <= 9; digit++) {
            snprintf(text, sizeof text, "%de%d", digit, e);
            same_as_strtod(text);
            around(strtod(text, NULL));
        }
    }
    for (int bits = 50; bits <= 64; bits++) {
        for (int add = -3; add <= 3; add++) around(ldexp(1, bits) + add);
    }
    for (uint64_t n = 1; n < 2000; n++) around(of_bits(n)); /* the smallest of all */
    for (uint64_t n = 0; n < 200; n++) around(of_bits(UINT64_C(0x0010000000000000) - n));
    around(DBL_MAX);
}

/* The texts that are expected to the letter. */
static void known_texts(void **state)
{
    static const struct {
        double d;
        const char *digits;
    } cases[] = {
        {5e-324, "5"},
        {1.7976931348623157e308, "17976931348623157"},
        {2.2250738585072014e-308, "22250738585072014"},
        {2.225073858507201e-308, "2225073858507201"},
        {9007199254740991.0, "9007199254740991"},
        {9007199254740992.0, "9007199254740992"},
        {9007199254740994.0, "9007199254740994"},
        {0.1, "1"},
        {0.3, "3"},
        {0.30000000000000004, "30000000000000004"},
        {1.0 / 3, "3333333333333333"},
        {100.0, "1"},
        {1e21, "1"},
        {1e22, "1"},
        {1e23, "1"},
        {9.5367431640625e-07, "95367431640625"},
        {123456789.125, "123456789125"},
        {-1.5, "15"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[MS_F64_MAX + 1], digits[MS_F64_MAX];
        size_t n = significant(written(cases[i].d, text), digits);
        if (n != strlen(cases[i].digits) || memcmp(digits, cases[i].digits, n) != 0)
            fail_msg("%.17g: %s", cases[i].d, text);
        round_trip(cases[i].d);
    }
}

static void not_finite_is_null(void **state)
{
    char text[MS_F64_MAX + 1];
    (void)state;
    assert_string_equal(written(NAN, text), "null");
    assert_string_equal(written(-NAN, text), "null");
    assert_string_equal(written(INFINITY, text), "null");
    assert_string_equal(written(-INFINITY, text), "null");
}

static void zeros(void **state)
{
    char text[MS_F64_MAX + 1];
    (void)state;
    assert_true(identical(strtod(written(0.0, text), NULL), 0.0));
    assert_true(identical(strtod(written(-0.0, text), NULL), -0.0));
    round_trip(0.0);
    round_trip(-0.0);
    same_as_strtod("0");
    same_as_strtod("-0");
    same_as_strtod("-0.000e5");
    same_as_strtod("0e999999999999999999999");
    same_as_strtod("-1e-999999999999999999999");
}

/* Integers are written as integers are: no fraction, no exponent, at least up to 1e15. */
static void integers_look_like_integers(void **state)
{
    static const char *const texts[] = {"0", "1", "-1", "10", "100", "1000", "123456",
                                        "1000000", "1700000000", "999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[MS_F64_MAX + 1];
        int64_t n;
        written(strtod(texts[i], NULL), text);
        assert_int_equal(ms_json_i64(ms_str_of(text), &n), MS_OK);
        assert_string_equal(text, texts[i]);
    }
}

/* n digits behind what is there, the first `zeros` of them 0. */
static size_t put_digits(char *text, size_t n, size_t zeros, uint64_t *random)
{
    for (size_t k = 0; k < n; k++)
        text[k] = k < zeros ? '0' : (char)('0' + test_below(random, 10));
    return n;
}

/* Random digits, many or few, with and without point and exponent. */
static void random_texts(void **state)
{
    static char text[2048];
    uint64_t random = test_seed() + 2;
    (void)state;
    for (size_t i = test_times(100000); i > 0; i--) {
        size_t n = 0;
        size_t before = (size_t)test_below(&random, test_one_in(&random, 20) ? 900 : 20);
        size_t behind = (size_t)test_below(&random, test_one_in(&random, 20) ? 900 : 20);
        size_t zeros = behind > 10 && test_one_in(&random, 4) ? behind - 10 : 0;
        int exponent = (int)test_below(&random, 700) - 350;
        if (test_one_in(&random, 2)) text[n++] = '-';
        text[n++] = before == 0 ? '0' : (char)('1' + test_below(&random, 9));
        n += put_digits(text + n, before, 0, &random);
        if (behind > 0) text[n++] = '.';
        n += put_digits(text + n, behind, zeros, &random);
        text[n] = '\0';
        if (!test_one_in(&random, 3)) sprintf(text + n, "e%d", exponent);
        same_as_strtod(text);
    }
}

static const char *const bad_texts[] = {
    "",     "-",     "+1",  "01",  "-01", "1.",       ".1",        "1e",   "1e+",
    "1E-",  "1 ",    " 1",  "1\n", "1,5", "0x10",     "\"1\"",     "1f",   "--1",
    "1.5.", "1e1.5", "nan", "NaN", "inf", "Infinity", "-Infinity", "null", "1_000",
    "1-",   "1e1e1", "e1",  "--",  "1]",  "1e--1",    "\xd9\xa1",  "1e 1", "0e",
};

static void texts_that_are_no_numbers(void **state)
{
    double d = 77;
    (void)state;
    for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
        ms_result result = ms_f64_read(ms_str_of(bad_texts[i]), &d);
        if (result != MS_E_SYNTAX) fail_msg("\"%s\": %d", bad_texts[i], (int)result);
    }
    assert_int_equal(ms_f64_read(ms_str_of(NULL), &d), MS_E_SYNTAX);
    assert_int_equal(ms_f64_read(ms_str_n("1\0", 2), &d), MS_E_SYNTAX);
    assert_true(d > 76 && d < 78);
    assert_int_equal(ms_f64_read(ms_str_n("12", 1), &d), MS_OK); /* to its length only */
    assert_true(identical(d, 1));
}

/* The edge of what a double can say. */
static void overflow(void **state)
{
    /* 1.7976931348623158079...e308 is halfway to 2^1024 */
    static const char *const fit[] = {
        "1.7976931348623157e308", "1.7976931348623158e308", "1.797693134862315807e308",
        "0.00017976931348623157e312"};
    static const char *const not_fit[] = {
        "1.7976931348623159e308", "1.797693134862315808e308", "2e308", "1e309", "-1e309",
        "1e2147483648", "1e9223372036854775808", "1e18446744073709551617"};
    double d = 77;
    (void)state;
    for (size_t i = 0; i < sizeof not_fit / sizeof *not_fit; i++) {
        assert_int_equal(ms_f64_read(ms_str_of(not_fit[i]), &d), MS_E_RANGE);
        assert_true(identical(d, 77));
        same_as_strtod(not_fit[i]);
    }
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) {
        assert_int_equal(ms_f64_read(ms_str_of(fit[i]), &d), MS_OK);
        assert_true(identical(d, DBL_MAX));
    }
}


/* ---- texts halfway between two doubles, exactly ---- */

typedef struct big {
    uint32_t limb[100]; /* nine digits each, the lowest first */
    size_t n;
} big;

/* The factor is below 10^9, so that what is carried fits one limb. */
static void big_times(big *b, uint32_t factor)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)(carry % 1000000000);
        carry /= 1000000000;
    }
    if (carry > 0) b->limb[b->n++] = (uint32_t)carry;
}

/* value * 2^exponent as digits; the number is digits * 10^-places. */
static void big_set(big *b, uint64_t value, int exponent, int *places)
{
    memset(b, 0, sizeof *b);
    do {
        b->limb[b->n++] = (uint32_t)(value % 1000000000);
    } while ((value /= 1000000000) > 0);
    *places = exponent < 0 ? -exponent : 0;
    for (; exponent >= 29; exponent -= 29) big_times(b, 1u << 29);
    for (; exponent > 0; exponent--) big_times(b, 2);
    for (; exponent <= -12; exponent += 12) big_times(b, 244140625); /* 5^12 */
    for (; exponent < 0; exponent++) big_times(b, 5);
}

/* One less; the number is not 0. */
static void big_decrement(big *b)
{
    size_t i = 0;
    while (b->limb[i] == 0) b->limb[i++] = 999999999;
    b->limb[i]--;
}

static size_t big_text(const big *b, char *text)
{
    size_t n = b->n;
    while (n > 1 && b->limb[n - 1] == 0) n--;
    int len = sprintf(text, "%u", (unsigned)b->limb[n - 1]);
    while (n-- > 1) len += sprintf(text + len, "%09u", (unsigned)b->limb[n - 1]);
    return (size_t)len;
}

/* digits and then `more` behind them, times 10^-places, reads as want; infinite: refused.
 * Spelled with an exponent, and as 0.000... when it is below 1. */
static void reads_as(const char *digits, const char *more, int places, double want)
{
    static char text[4096];
    int n = (int)strlen(digits) + (int)strlen(more), shift = places + (int)strlen(more);
    for (int form = 0; form < 2; form++) {
        double got = 77;
        if (form == 0) sprintf(text, "%s%se%d", digits, more, -shift);
        else if (shift >= n) sprintf(text, "0.%0*d%s%s", shift - n + 1, 0, digits, more);
        else continue;
        if (form == 1) memmove(text + 2, text + 3, strlen(text + 3) + 1);
        ms_result result = ms_f64_read(ms_str_of(text), &got);
        if (result != (isinf(want) ? MS_E_RANGE : MS_OK) ||
            !identical(got, isinf(want) ? 77 : want))
            fail_msg("%s: %d, %.17g instead of %.17g", text, (int)result, got, want);
    }
}

/* Between the double of these bits and the next one: exactly halfway goes to the even
 * one, anything less or more to the nearer one, however late the difference comes. */
static void halfway(uint64_t bits)
{
    static char digits[1024];
    double low = of_bits(bits), high = of_bits(bits + 1);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int exponent = (int)(bits >> 52), places;
    big b;
    if (exponent > 0) fraction |= UINT64_C(1) << 52;
    if (exponent == 0) exponent = 1;
    big_set(&b, 2 * fraction + 1, exponent - 1076, &places);
    big_text(&b, digits);
    reads_as(digits, "", places, bits % 2 == 0 ? low : high);
    reads_as(digits, "0", places, bits % 2 == 0 ? low : high);
    reads_as(digits, "0000000000000000000000001", places, high);
    big_decrement(&b);
    big_text(&b, digits);
    reads_as(digits, "9999999999999999999999999", places, low);
    big_set(&b, fraction, exponent - 1075, &places);
    big_text(&b, digits);
    reads_as(digits, "", places, low);
}

static void halfway_texts(void **state)
{
    static const uint64_t edges[] = {
        0, 1, 2, 3, 4, UINT64_C(0x000fffffffffffff), UINT64_C(0x0010000000000000),
        UINT64_C(0x001fffffffffffff), UINT64_C(0x7fefffffffffffff),
        UINT64_C(0x7feffffffffffffe), UINT64_C(0x3ff0000000000000),
        UINT64_C(0x3fefffffffffffff), UINT64_C(0x4340000000000000)};
    uint64_t random = test_seed() + 3, step = test_scale() < 100 ? 5 : 1;
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) halfway(edges[i]);
    for (uint64_t e = 0; e < 2047; e += step) halfway(e << 52);
    for (size_t i = test_times(test_scale() < 1000 ? 1500 : 4000); i > 0; i--) {
        halfway(test_random(&random) % UINT64_C(0x7ff0000000000000));
        halfway(test_random(&random) % UINT64_C(0x0020000000000000)); /* subnormal */
        halfway((UINT64_C(1023) << 52) + test_random(&random) % (UINT64_C(64) << 52));
    }
}

/* Many zeros: in front, behind, between, taken back by the exponent. */
static void long_runs_of_zeros(void **state)
{
    static char text[8192];
    (void)state;
    for (int n = 1; n <= 3000; n += n < 400 ? 1 : 371) {
        sprintf(text, "0.%0*d1", n, 0);
        same_as_strtod(text);
        sprintf(text, "0.%0*d123e%d", n, 0, n);
        same_as_strtod(text);
        sprintf(text, "-1%0*d", n, 0);
        same_as_strtod(text);
        sprintf(text, "17%0*d.5e-%d", n, 0, n);
        same_as_strtod(text);
        sprintf(text, "1%0*d1", n, 0);
        same_as_strtod(text);
        sprintf(text, "9007199254740993.%0*d1", n, 0);
        same_as_strtod(text);
        sprintf(text, "1e%0*d5", n, 0);
        same_as_strtod(text);
        sprintf(text, "1e-%0*d5", n, 0);
        same_as_strtod(text);
    }
}

/* What we write jansson reads as the same number, and what it writes so do we. */
static void jansson_reads_and_writes(void **state)
{
    const size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL;
    uint64_t random = test_seed() + 4;
    (void)state;
    for (size_t i = test_times(100000); i > 0; i--) {
        char text[MS_F64_MAX + 1];
        double d = of_bits(test_random(&random)), back;
        int64_t n;
        if (!isfinite(d)) continue;
        if (test_one_in(&random, 2)) d = (double)(int64_t)test_random(&random) / 4096;
        json_t *ours = json_loads(written(d, text), flags, NULL);
        if (ours == NULL || !identical(json_real_value(ours), d))
            fail_msg("jansson of %s", text);
        json_decref(ours);
        json_t *real = json_real(d);
        char *theirs = json_dumps(real, JSON_ENCODE_ANY);
        assert_int_equal(ms_f64_read(ms_str_of(theirs), &back), MS_OK);
        if (!identical(back, d)) fail_msg("%s reads as %.17g", theirs, back);
        free(theirs);
        json_decref(real);
        json_t *integer = json_integer((json_int_t)test_random(&random));
        theirs = json_dumps(integer, JSON_ENCODE_ANY);
        assert_int_equal(ms_json_i64(ms_str_of(theirs), &n), MS_OK);
        assert_true(n == json_integer_value(integer));
        free(theirs);
        json_decref(integer);
    }
}


/* ---- locale ---- */

/* A locale whose decimal point is a comma, set; false when there is none here. */
static bool comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",  "de_DE",
                                        "fr_FR.UTF-8", "fr_FR.utf8",  "es_ES.UTF-8",
                                        "it_IT.UTF-8", "nl_NL.UTF-8", "pt_BR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_ALL, names[i]) != NULL &&
            strcmp(localeconv()->decimal_point, ",") == 0)
            return true;
    }
    setlocale(LC_ALL, "C");
    return false;
}

typedef struct spelled {
    char text[MS_F64_MAX + 1];
    double d;
} spelled;

static bool locale_changes(const spelled *all, size_t n, char *where, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        char text[MS_F64_MAX + 1];
        double a = 77, b = 77;
        ms_str s = ms_str_of(all[i].text);
        text[ms_f64_write(all[i].d, text)] = '\0';
        snprintf(where, size, "%s", text);
        if (strcmp(text, all[i].text) != 0) return true;
        if (ms_f64_read(s, &a) != MS_OK || !identical(a, all[i].d)) return true;
        if (ms_json_f64(s, &b) != MS_OK || !identical(b, all[i].d)) return true;
    }
    return ms_f64_read(MS_STR("1,5"), &(double){0}) == MS_OK;
}

static void comma_locale_changes_nothing(void **state)
{
    enum { N = 2000 };
    static spelled all[N];
    char where[64];
    uint64_t random = test_seed() + 5;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        all[i].d = i % 2 ? (double)test_below(&random, 1000000) / 1000
                         : of_bits(test_random(&random) % UINT64_C(0x7ff0000000000000));
        written(all[i].d, all[i].text);
    }
    if (!comma_locale()) {
        printf("skipped: no locale with a decimal comma here\n");
        skip();
    }
    bool changes = locale_changes(all, N, where, sizeof where);
    setlocale(LC_ALL, "C");
    if (changes) fail_msg("%s", where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(not_finite_is_null),
        cmocka_unit_test(zeros),
        cmocka_unit_test(integers_look_like_integers),
        cmocka_unit_test(texts_that_are_no_numbers),
        cmocka_unit_test(overflow),
        cmocka_unit_test(powers_and_neighbours),
        cmocka_unit_test(quotients_are_rounded_once),
        cmocka_unit_test(everyday_numbers),
        cmocka_unit_test(random_bits),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(halfway_texts),
        cmocka_unit_test(long_runs_of_zeros),
        cmocka_unit_test(jansson_reads_and_writes),
        cmocka_unit_test(comma_locale_changes_nothing),
    };
    return cmocka_run_group_tests_name("numbers", tests, NULL, NULL);
}
