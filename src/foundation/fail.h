
/* ==== [fail] errors ==================================================================
 * ms__fail makes every error, with a formatter of its own instead of stdio: %s is a C
 * string (before other text a path of more than 100 bytes without its beginning, so that
 * the reason fits), %v a view given as pointer and length (shortened, with control
 * characters shown as '?'), %u a uint64_t. Text that does not fit is truncated.
 * ================================================================================== */

#include <stdarg.h>

static const char *const ms__result_texts[] = {
#define MS__X(name, text) text,
    MS_RESULTS(MS__X)
#undef MS__X
};

MS_API const char *ms_result_text(ms_result code)
{
    return (unsigned)code < MS_RESULT_COUNT ? ms__result_texts[code] : "unknown result";
}

/* Fills err, which may be NULL, without a text. */
static ms_result ms__fail_code(ms_error *err, ms_result code)
{
    if (!err) return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    err->offset = MS_NO_OFFSET;
    return code;
}

#define MS__V(s) (s).ptr, (s).len

#ifdef MSGSTORE_NO_ERROR_TEXT
/* Makes the compiler check the arguments of a text without evaluating them, so that the
 * text is not in the program. */
static MS__UNUSED int ms__no_text(const char *format, ...) { return format != NULL; }
#define ms__fail(err, code, ...) \
    ((void)sizeof ms__no_text(__VA_ARGS__), ms__fail_code(err, code))
#define ms__fail_at(err, code, field, ...) \
    ((void)(field), (void)sizeof ms__no_text(__VA_ARGS__), ms__fail_code(err, code))
#define ms__fail_in(err, code, ...) \
    ((void)(err), (void)sizeof ms__no_text(__VA_ARGS__), (code))
#else
typedef struct ms__line {
    char *ptr;
    size_t cap, len; /* cap: with the NUL */
} ms__line;

static void ms__line_add(ms__line *l, const char *p, size_t n)
{
    n = ms__min(n, l->cap - 1 - l->len);
    memcpy(l->ptr + l->len, p, n);
    l->len += n;
}

/* Adds a view for people to read: at most 40 bytes of complete characters, without
 * control characters. */
static void ms__line_add_view(ms__line *l, ms_str s)
{
    size_t i = 0;
    while (i < s.len && i < 40) {
        unsigned bad;
        unsigned len = ms__utf8_char((const unsigned char *)s.ptr + i, s.len - i, &bad);
        bool plain = len > 1 ? (unsigned char)s.ptr[i] != 0xC2 ||
                                   (unsigned char)s.ptr[i + 1] >= 0xA0
                             : len == 1 && s.ptr[i] >= ' ' && s.ptr[i] != 127;
        ms__line_add(l, plain ? s.ptr + i : "?", plain ? len : 1);
        i += len ? len : bad;
    }
    if (i < s.len) ms__line_add(l, "...", 3);
}

static void ms__line_format(ms__line *l, const char *format, va_list args)
{
    for (const char *p = format; *p; p++) {
        char digits[20];
        if (*p != '%') {
            ms__line_add(l, p, 1);
            continue;
        }
        p++;
        if (*p == 's') {
            const char *s = va_arg(args, const char *);
#ifndef MSGSTORE_NO_LOG /* without it no text has a path */
            size_t n = strlen(s);
            if (n > 100 && p[1]) {
                ms__line_add(l, "...", 3);
                s += n - 97;
                while (((unsigned char)*s & 0xC0) == 0x80) s++;
            }
#endif
            ms__line_add(l, s, strlen(s));
        } else if (*p == 'v') {
            const char *ptr = va_arg(args, const char *);
            ms__line_add_view(l, ms_str_n(ptr, va_arg(args, size_t)));
        } else {
            ms__line_add(l, digits, ms__u64_write(va_arg(args, uint64_t), digits));
        }
    }
    l->ptr[l->len] = 0;
}

/* Fills err; `field`, shorter than err->path, becomes its path. */
static MS__RARE ms_result ms__fail_va(ms_error *err, ms_result code, const char *field,
                                      const char *format, va_list args)
{
    ms__line l;
    (void)ms__fail_code(err, code);
    if (!err) return code;
    memcpy(err->path, field, ms__min(strlen(field), sizeof err->path - 1));
    l.ptr = err->message;
    l.cap = sizeof err->message;
    l.len = 0;
    ms__line_format(&l, format, args);
    return code;
}

/* Fills err, which may be NULL, and returns the code. */
static MS__RARE ms_result ms__fail(ms_error *err, ms_result code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)ms__fail_va(err, code, "", format, args);
    va_end(args);
    return code;
}

/* As ms__fail, with the name of a field. */
static MS__RARE ms_result ms__fail_at(ms_error *err, ms_result code, const char *field,
                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)ms__fail_va(err, code, field, format, args);
    va_end(args);
    return code;
}

/* Puts a parent such as "messages[3]" before the path of an error. */
static MS__RARE ms_result ms__fail_in(ms_error *err, ms_result code, const char *format,
                                      ...)
{
    char whole[sizeof err->path];
    va_list args;
    ms__line l;
    if (!err) return code;
    l.ptr = whole;
    l.cap = sizeof whole;
    l.len = 0;
    va_start(args, format);
    ms__line_format(&l, format, args);
    va_end(args);
    if (err->path[0] && err->path[0] != '[') ms__line_add(&l, ".", 1);
    ms__line_add(&l, err->path, strlen(err->path));
    whole[l.len] = 0;
    memcpy(err->path, whole, sizeof whole);
    return code;
}
#endif

MS_API ms_result ms_error_set(ms_error *err, ms_result code, const char *message)
{
    return ms__fail(err, code, "%s", message);
}

/* size 0: it is not known. */
static MS__RARE ms_result ms__no_memory(ms_error *err, uint64_t size)
{
    return ms__fail(err, MS_E_NO_MEMORY, size ? "no memory for %u bytes"
                                              : ms_result_text(MS_E_NO_MEMORY), size);
}

/* Reports that an arena is NULL, that its buffer is full, or that memory has run out. */
static MS__RARE ms_result ms__no_arena(ms_error *err, const ms_arena *a, uint64_t size)
{
    if (a && !a->buffer) return ms__no_memory(err, size);
    return ms__fail(err, MS_E_ARENA, !a ? "an arena is needed"
                                     : size ? "the arena has no room for %u bytes"
                                            : "the arena is full", size);
}

static MS__RARE ms_result ms__unknown_bits(ms_error *err, const char *name, uint64_t bits,
                                           uint64_t known)
{
    return ms__fail_at(err, MS_E_ARGUMENT, name, "%s is %u, the known flags are %u",
                       name, bits, known);
}

/* Reports a number that is less than `least` or more than `most`. */
static MS__RARE ms_result ms__range_fail(ms_error *err, ms_result code, const char *name,
                                         uint64_t number, uint64_t least, uint64_t most)
{
    return ms__fail_at(err, code, name, "%s is %u, %u to %u were expected", name, number,
                       least, most);
}

#define MS__TRY(call)                                 \
    do {                                              \
        ms_result ms__try = (call);                   \
        if (MS__UNLIKELY(ms__try != MS_OK)) return ms__try; \
    } while (0)
