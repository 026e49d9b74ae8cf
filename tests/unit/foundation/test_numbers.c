/* Numbers and times as text: ms_json_f64 against libc's strtod, integers against shifted
 * digits, also in a locale whose decimal point is a comma; test_seconds_write and ms_seconds_read against printf;
 * ms_iso_write and ms_iso_read against gmtime_r and timegm; times at the edge of what
 * nanoseconds hold. */
#define _GNU_SOURCE
#include "json_maker.h"
#include "json_twin.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <time.h>

static ms_arena arena;

static bool identical(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}


/* ---- numbers ---- */

/* The number as strtod reads it, and as an integer if its digits spell one. */
static void number_must_be_right(const char *text)
{
    ms_str v = ms_str_of(text);
    const char *why = number_differs(v, &arena);
    if (why != NULL) fail_msg("%.900s: %s", text, why);
    ms_arena_reset(&arena);
}

TEST(numbers_are_read_as_strtod_and_their_digits_have_them)
{
    static const char *const texts[] = {
        "0", "-0", "-0.0", "-0e7", "-0.000e5", "0e999999999999999999", "1", "-1",
        "9223372036854775806", "9223372036854775807", "9223372036854775808",
        "-9223372036854775807", "-9223372036854775808", "-9223372036854775809",
        "18446744073709551614", "18446744073709551615", "18446744073709551616",
        "18446744073709551625", "99999999999999999999", "184467440737095516150",
        "1.0", "1e3", "1E+3", "-1e3", "1000e-3", "1.5e1", "0.001e3", "1e18", "1e19", "1e20",
        "9.223372036854775807e18", "9.223372036854775808e18", "-922337203685477580.8e1",
        "1.8446744073709551615e19", "1.000000000000000005", "10000000000000000999",
        "1E-999", "1000000000000000", "1.5", "-0.1", "1e-400", "-1e-400", "1e400", "-1e400",
        "1e99999999999999999999", "1e-99999999999999999999", "1e18446744073709551616",
        "1e4294967296", "1e-4294967296", "0.0000000000000000000000000000000000000001e41",
        "-1e-999999999999999999999", "5e-324", "2e-324", "2.5e-324", "2e308", "-1e309",
        "1.7976931348623157e308", "1.7976931348623158e308", "1.797693134862315807e308",
        "0.00017976931348623157e312", "1.7976931348623159e308", "1.797693134862315808e308",
        "1e2147483648", "1e9223372036854775808", "1e18446744073709551617",
        "9007199254740993", "9007199254740993.0",
        "9007199254740993.0000000000000000000000000000000000000000000000001"};
    static maker m;
    m.random = test_seed() + 2;
    for (size_t i = 0; i < COUNT(texts); i++) number_must_be_right(texts[i]);
    for (size_t i = test_times(100000); i > 0; i--) {
        m.len = 0;
        make_number(&m);
        add(&m, "", 1);
        number_must_be_right(m.bytes);
    }
}

/* Zeros in front, after, between, taken back by the exponent; a last digit that decides
 * how the number is rounded, far behind the digits that are kept. */
TEST(long_runs_of_digits_count)
{
    static const struct {
        const char *before, *after; /* of the zeros */
        bool exponent;              /* that takes them back */
    } forms[] = {
        {"1.", "", false},  {"1.", "1", false},     {"0.", "1", false},
        {"0.", "123", true}, {"-1", "", false},      {"17", ".5", true},
        {"9007199254740993.", "1", false},          {"1e", "5", false},
    };
    static char text[8192];
    for (int n = 1; n <= 3000; n += n < 900 ? 1 : 371)
        for (size_t i = 0; i < COUNT(forms); i++) {
            int len = sprintf(text, "%s%0*d%s", forms[i].before, n, 0, forms[i].after);
            if (forms[i].exponent)
                sprintf(text + len, "e%d", forms[i].before[0] == '0' ? n : -n);
            number_must_be_right(text);
        }
    for (int e = -1075; e < 0; e += 25) { /* half-way between two doubles, and more */
        sprintf(text, "%.*Lf1", -e, ldexpl(9007199254740993.0L, e));
        number_must_be_right(text);
    }
}

static const char *const bad_texts[] = {
    "",     "-",     "+1",  "01",  "-01", "1.",       ".1",        "1e",   "1e+",
    "1E-",  "1,5",   "0x10", "\"1\"", "1f", "--1",    "1.5.", "1e1.5", "nan", "inf",
    "null", "1_000", "1-",  "1e1e1", "e1", "--",      "1]",   "1e--1", "1e 1", "0e",
    "1.e5", "-.5",   "\xd9\xa1",
};

TEST(texts_that_are_no_numbers_are_refused)
{
    double d = 77;
    int64_t ns = 77;
    for (size_t i = 0; i < COUNT(bad_texts); i++) {
        ms_str text = ms_str_of(bad_texts[i]);
        if (ms_json_f64(text, &d) == MS_OK) fail_msg("\"%s\" is a double", bad_texts[i]);
        if (ms_seconds_read(text, &ns) != MS_E_SYNTAX)
            fail_msg("\"%s\" is a time", bad_texts[i]);
    }
    assert_int_equal(ms_seconds_read(ms_str_of(NULL), &ns), MS_E_SYNTAX);
    assert_int_equal(ms_seconds_read(ms_str_n("1\0", 2), &ns), MS_E_SYNTAX);
    assert_true(identical(d, 77) && ns == 77);
    assert_int_equal(ms_json_f64(ms_str_n("12", 1), &d), MS_OK); /* to its length only */
    assert_true(identical(d, 1));
}

/* A locale whose decimal point is a comma, set; false when there is none here. */
static bool comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",  "de_DE",
                                        "fr_FR.UTF-8", "fr_FR.utf8",  "es_ES.UTF-8",
                                        "it_IT.UTF-8", "nl_NL.UTF-8", "pt_BR.UTF-8"};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (setlocale(LC_ALL, names[i]) != NULL &&
            strcmp(localeconv()->decimal_point, ",") == 0)
            return true;
    }
    setlocale(LC_ALL, "C");
    return false;
}

TEST(a_comma_locale_changes_nothing)
{
    double d = 77;
    int64_t ns = 77;
    if (!comma_locale()) skip();
    ms_result f64 = ms_json_f64(MS_STR("1.5"), &d);
    ms_result wrong = ms_json_f64(MS_STR("1,5"), &d);
    ms_result seconds = ms_seconds_read(MS_STR("1.5"), &ns);
    setlocale(LC_ALL, "C");
    assert_int_equal(f64, MS_OK);
    assert_int_not_equal(wrong, MS_OK);
    assert_int_equal(seconds, MS_OK);
    assert_true(identical(d, 1.5) && ns == 1500000000);
}


/* ---- seconds ---- */

static const struct {
    const char *text;
    int64_t ns;
    const char *written;      /* NULL: the same */
} times[] = {
    {"0", 0, NULL},
    {"-0", 0, "0"},
    {"0.0e7", 0, "0"},
    {"1723.25", 1723250000000, NULL},
    {"1723.250", 1723250000000, "1723.25"},
    {"1.72325e3", 1723250000000, "1723.25"},
    {"172325E-2", 1723250000000, "1723.25"},
    {"1700000000.123456789", 1700000000123456789, NULL},
    {"1700000000.1234567899999", 1700000000123456789, "1700000000.123456789"},
    {"-1.5", -1500000000, NULL},
    {"-0.000000001", -1, NULL},
    {"0.0000000019", 1, "0.000000001"},
    {"1e-9", 1, "0.000000001"},
    {"1e-10", 0, "0"},
    {"1e-99999999999999999999", 0, "0"},
    {"100", 100000000000, NULL},
    {"9223372036.854775807", INT64_MAX, NULL},
    {"9223372036.854775808", INT64_MAX, "9223372036.854775807"},
    {"-9223372036.854775807", INT64_MIN + 1, NULL},
    {"-9223372036.854775808", INT64_MIN + 1, "-9223372036.854775807"},
    {"1e11", INT64_MAX, "9223372036.854775807"},
    {"-1e999", INT64_MIN + 1, "-9223372036.854775807"},
    {"1e99999999999999999999", INT64_MAX, "9223372036.854775807"},
};

TEST(seconds_are_read_and_written_exactly)
{
    for (size_t i = 0; i < COUNT(times); i++) {
        char text[TEST_SECONDS_MAX];
        int64_t ns = 77;
        assert_int_equal(ms_seconds_read(ms_str_of(times[i].text), &ns), MS_OK);
        if (ns != times[i].ns) fail_msg("%s: %lld", times[i].text, (long long)ns);
        ms_str got = ms_str_n(text, test_seconds_write(ns, text));
        const char *want = times[i].written ? times[i].written : times[i].text;
        if (!ms_str_equal(got, ms_str_of(want)))
            fail_msg("%s: %.*s", times[i].text, (int)got.len, got.ptr);
    }
    assert_int_equal(test_seconds_write(MS_TIME_NONE, (char[TEST_SECONDS_MAX]){0}), 0);
}

/* Random times, of all sizes. */
static int64_t random_ns(uint64_t *random)
{
    int64_t ns = (int64_t)(test_random(random) >> test_below(random, 64));
    static const int64_t steps[] = {1, 1000, 1000000, 1000000000};
    ns -= ns % steps[test_below(random, 4)];
    if (ns == MS_TIME_NONE) ns = 0;
    return test_one_in(random, 2) ? -ns : ns;
}

TEST(what_is_written_is_read)
{
    uint64_t random = test_seed() + 3;
    for (size_t i = test_times(200000); i > 0; i--) {
        char text[MS_ISO_MAX], want[64];
        int64_t ns = random_ns(&random), back = 77;
        ms_str got = ms_str_n(text, test_seconds_write(ns, text));
        assert_int_equal(ms_seconds_read(got, &back), MS_OK);
        if (back != ns) fail_msg("%.*s: %lld", (int)got.len, got.ptr, (long long)ns);
        uint64_t u = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
        int len = snprintf(want, sizeof want, "%s%llu.%09llu", ns < 0 ? "-" : "",
                           (unsigned long long)(u / 1000000000),
                           (unsigned long long)(u % 1000000000));
        while (want[len - 1] == '0') len--;
        if (want[len - 1] == '.') len--;
        if (!ms_str_equal(got, ms_str_n(want, (size_t)len)))
            fail_msg("%.*s instead of %s", (int)got.len, got.ptr, want);
        got = ms_str_n(text, ms_iso_write(ns, text));
        assert_int_equal(ms_iso_read(got, &back), MS_OK);
        if (back != ns) fail_msg("%.*s: %lld", (int)got.len, got.ptr, (long long)ns);
    }
    test_tally("numbers written and read", test_times(200000));
}


/* ---- dates ---- */

TEST(dates_are_those_of_the_calendar)
{
    uint64_t random = test_seed() + 4;
    for (size_t i = test_times(100000); i > 0; i--) {
        char text[MS_ISO_MAX], want[64];
        int64_t ns = random_ns(&random);
        int64_t part = (ns % 1000000000 + 1000000000) % 1000000000;
        time_t whole = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
        struct tm t;
        assert_non_null(gmtime_r(&whole, &t));
        size_t len = strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S", &t);
        if (part % 1000000 == 0 && part > 0)
            len += (size_t)sprintf(want + len, ".%03d", (int)(part / 1000000));
        else if (part % 1000 == 0 && part > 0)
            len += (size_t)sprintf(want + len, ".%06d", (int)(part / 1000));
        else if (part > 0)
            len += (size_t)sprintf(want + len, ".%09d", (int)part);
        want[len++] = 'Z';
        ms_str got = ms_str_n(text, ms_iso_write(ns, text));
        if (!ms_str_equal(got, ms_str_n(want, len)))
            fail_msg("%lld: %.*s instead of %.*s", (long long)ns, (int)got.len, got.ptr,
                     (int)len, want);
    }
    assert_int_equal(ms_iso_write(MS_TIME_NONE, (char[MS_ISO_MAX]){0}), 0);
}

static const struct {
    const char *text;
    ms_result result;
    int64_t ns;
} dates[] = {
    {"1970-01-01T00:00:00Z", MS_OK, 0},
    {"1970-01-01 00:00:01", MS_OK, 1000000000},
    {"1970-01-01T01:00:00+01:00", MS_OK, 0},
    {"1969-12-31T23:00:00.5-0100", MS_OK, 500000000},
    {"1969-12-31T23:59:59.999999999Z", MS_OK, -1},
    {"2024-02-29T12:00:60Z", MS_OK, 1709208060000000000},
    {"2262-04-11T23:47:15.999999999Z", MS_OK, 9223372035999999999},
    {"2262-04-11T23:47:16.854775807Z", MS_OK, INT64_MAX},
    {"2262-04-11T23:47:17Z", MS_OK, INT64_MAX},
    {"9999-12-31T23:59:59Z", MS_OK, INT64_MAX},
    {"1677-09-21T00:12:44Z", MS_OK, -9223372036000000000},
    {"1677-09-21T00:12:43.145224193Z", MS_OK, INT64_MIN + 1},
    {"0001-01-01T00:00:00Z", MS_OK, INT64_MIN + 1},
    {"0000-01-01T00:00:00Z", MS_E_RANGE, 77},
    {"2023-02-29T00:00:00Z", MS_E_RANGE, 77},
    {"2023-13-01T00:00:00Z", MS_E_RANGE, 77},
    {"2023-01-01T24:00:00Z", MS_E_RANGE, 77},
    {"2023-01-01T00:00:00.Z", MS_E_SYNTAX, 77},
    {"2023-01-01T00:00:00.1234567890Z", MS_E_SYNTAX, 77},
    {"2023-01-01T00:00:00+1", MS_E_SYNTAX, 77},
    {"2023-01-01T00:00:00Zx", MS_E_SYNTAX, 77},
    {"2023-01-01", MS_E_SYNTAX, 77},
    {"", MS_E_SYNTAX, 77},
};

TEST(dates_outside_of_nanoseconds_are_the_nearest_ones)
{
    for (size_t i = 0; i < COUNT(dates); i++) {
        int64_t ns = 77;
        ms_result result = ms_iso_read(ms_str_of(dates[i].text), &ns);
        if (result != dates[i].result || ns != dates[i].ns)
            fail_msg("%s: %d, %lld", dates[i].text, (int)result, (long long)ns);
    }
}

int main(void)
{
    int failed = run_all_tests(NULL, NULL);
    ms_arena_deinit(&arena);
    return failed;
}
