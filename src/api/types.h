
/* ==== [api-types] strings, values, times ========================================= */

/* A view of bytes, not NUL-terminated. ptr NULL: absent; len 0: empty. A view is valid as
 * long as the bytes it refers to; ms_str_n makes one. */
typedef struct ms_str {
    const char *ptr;
    size_t len; /* bytes */
} ms_str;

static inline ms_str ms_str_n(const char *ptr, size_t len)
{
    ms_str s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* A string literal as ms_str. It is a call: static data in C needs {"a", 1}. If the
 * compiler reports a missing ')' or an operand of type pointer, the argument is not a
 * literal: use ms_str_of or ms_str_n. */
#define MS_STR(literal) ms_str_n("" literal "", sizeof("" literal "") - 1)

/* A NUL-terminated string as a view; NULL: absent. */
MS_API ms_str ms_str_of(const char *text);
MS_API bool ms_str_equal(ms_str a, ms_str b);        /* absent equals only absent */

/* Text, or the text of one JSON value. text.ptr NULL is absent. */
typedef struct ms_value {
    ms_str text;
    bool json; /* true: text is JSON */
} ms_value;

MS_API ms_value ms_text(const char *text);           /* NUL-terminated; NULL: absent */
MS_API ms_value ms_text_n(ms_str text);              /* a view without ptr: absent */
MS_API ms_value ms_json(ms_str json);                /* checked when appended */

/* A time is a signed number of nanoseconds since 1970-01-01 UTC: the years 1678 to 2261.
 * MS_TIME_NONE: no time. */
#define MS_TIME_NONE INT64_MIN
