
/* ==== [json] scanner, views, writer ==================================================
 * Messages arrive as JSON, and a program reads most members once or never. So nothing is
 * parsed into a tree: there is one validating pass over the text, then views into it. The
 * state of the pass is a position, a depth and one bit a level (object or array): it
 * needs no recursion and no memory.
 *
 * Reading functions walk the text again from the start of their view, without validation.
 * They stop at the view's end all the same, so an unchecked text returns wrong values at
 * worst.
 * (JS1) No function reads outside [ptr, ptr + len).
 * (JS2) ms_json_put_raw writes every text that ms_json_check accepts as an equal value.
 * ================================================================================== */

typedef struct ms__scan {
    const char *p, *end;
    bool repair;
    ms_result code;
    const char *expected; /* on failure: what was expected at p */
} ms__scan;

static bool ms__is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
static bool ms__is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *ms__skip_space(const char *p, const char *end)
{
    while (p < end && ms__is_space(*p)) p++;
    return p;
}

static MS__RARE bool ms__scan_fail(ms__scan *s, const char *at, ms_result code,
                                   const char *expected)
{
    s->p = at;
    s->code = code;
    s->expected = expected;
    return false;
}

/* Returns four hexadecimal digits as a number, or -1. */
static int ms__hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = ms__is_digit(c) ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        v = v * 16 + digit;
    }
    return v;
}

/* Returns the number of plain bytes from p on: no quote, backslash, control or
 * non-ASCII. */
static size_t ms__plain_run(const char *p, const char *end)
{
    const char *start = p;
#if MS__BY_16
    for (; end - p >= 16; p += 16) {
        unsigned run = ms__plain_16((const unsigned char *)p);
        if (run < 16) return (size_t)(p - start) + run;
    }
#endif
    while (p < end) {
        const char *stop = end - p < 8 ? end : p + 8;
        if (end - p >= 8) {
            uint64_t w, quote, slash;
            memcpy(&w, p, 8);
            quote = w ^ 0x2222222222222222u;
            slash = w ^ 0x5C5C5C5C5C5C5C5Cu;
            /* a high bit for every byte below 0x20, not ASCII, a quote, or a backslash */
            uint64_t hit = (w - 0x2020202020202020u) | (quote - 0x0101010101010101u) |
                           (slash - 0x0101010101010101u) | w;
            if (!(hit & 0x8080808080808080u)) {
                p = stop;
                continue;
            }
        }
        for (; p < stop; p++) {
            unsigned char c = (unsigned char)*p;
            if (c < 0x20 || c == '"' || c == '\\' || c >= 0x80)
                return (size_t)(p - start);
        }
    }
    return (size_t)(p - start);
}

static bool ms__is_escape(char c)
{
    switch (c) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return true;
    default: return false;
    }
}

/* Steps over the escape at s->p, which is a backslash. */
static bool ms__scan_escape(ms__scan *s)
{
    const char *p = s->p;
    if (p + 1 >= s->end) return ms__scan_fail(s, s->end, MS_E_SYNTAX, "an escape");
    if (p[1] != 'u') {
        if (!ms__is_escape(p[1]))
            return ms__scan_fail(s, p, MS_E_SYNTAX, "an escape (\\\" \\\\ \\/ \\b \\f "
                                                    "\\n \\r \\t or \\u)");
        s->p = p + 2;
        return true;
    }
    int unit = ms__hex4(p + 2, s->end);
    if (unit < 0) return ms__scan_fail(s, p, MS_E_SYNTAX, "four hexadecimal digits");
    s->p = p + 6;
    if (unit < 0xD800 || unit > 0xDFFF) return true;
    if (unit < 0xDC00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        int low = ms__hex4(s->p + 2, s->end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            s->p += 6;
            return true;
        }
    }
    return s->repair || ms__scan_fail(s, p, MS_E_UTF8, "a complete surrogate pair");
}

/* Steps over the string at s->p, which is its opening quote. */
static bool ms__scan_string(ms__scan *s)
{
    s->p++;
    for (;;) {
        s->p += ms__plain_run(s->p, s->end);
        if (s->p >= s->end)
            return ms__scan_fail(s, s->end, MS_E_SYNTAX, "a closing '\"'");
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c == '\\') {
            if (!ms__scan_escape(s)) return false;
        } else if (c < 0x20) {
            return ms__scan_fail(s, s->p, MS_E_SYNTAX,
                                 "control characters only as escapes");
        } else {
            unsigned bad, len = ms__utf8_char((const unsigned char *)s->p,
                                              (size_t)(s->end - s->p), &bad);
            if (len == 0 && !s->repair)
                return ms__scan_fail(s, s->p, MS_E_UTF8, "UTF-8");
            s->p += len ? len : bad;
        }
    }
}

static bool ms__scan_digits(ms__scan *s)
{
    const char *p = s->p;
    while (p < s->end && ms__is_digit(*p)) p++;
    if (p == s->p) return ms__scan_fail(s, p, MS_E_SYNTAX, "a digit");
    s->p = p;
    return true;
}

static bool ms__scan_number(ms__scan *s)
{
    if (*s->p == '-') s->p++;
    if (s->p < s->end && *s->p == '0') {
        s->p++;
        if (s->p < s->end && ms__is_digit(*s->p))
            return ms__scan_fail(s, s->p, MS_E_SYNTAX, "no digit after a leading 0");
    } else if (!ms__scan_digits(s)) {
        return false;
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!ms__scan_digits(s)) return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!ms__scan_digits(s)) return false;
    }
    return true;
}

static bool ms__scan_word(ms__scan *s, const char *word, size_t len)
{
    if ((size_t)(s->end - s->p) < len || memcmp(s->p, word, len) != 0)
        return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a JSON value");
    s->p += len;
    return true;
}

static bool ms__scan_scalar(ms__scan *s)
{
    char c = *s->p;
    if (c == '"') return ms__scan_string(s);
    if (c == '-' || ms__is_digit(c)) return ms__scan_number(s);
    if (c == 't') return ms__scan_word(s, "true", 4);
    if (c == 'f') return ms__scan_word(s, "false", 5);
    return ms__scan_word(s, "null", 4);
}

/* Steps over a member name and its colon. */
static bool ms__scan_key(ms__scan *s)
{
    s->p = ms__skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != '"')
        return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a member name in quotes");
    if (!ms__scan_string(s)) return false;
    s->p = ms__skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != ':') return ms__scan_fail(s, s->p, MS_E_SYNTAX, "':'");
    s->p++;
    return true;
}

/* Checks one value from s->p on, and moves s->p after it. */
static bool ms__scan_value(ms__scan *s, unsigned max_depth)
{
    uint32_t object[MS_JSON_MAX_DEPTH / 32]; /* bit: is the level an object */
    unsigned depth = 0;
    for (;;) {
        s->p = ms__skip_space(s->p, s->end);
        if (s->p == s->end) return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a JSON value");
        if (*s->p == '{' || *s->p == '[') {
            bool is_object = *s->p == '{';
            uint32_t bit = (uint32_t)1 << (depth & 31);
            if (depth == max_depth)
                return ms__scan_fail(s, s->p, MS_E_DEPTH, "less nesting");
            if (is_object) object[depth >> 5] |= bit;
            else object[depth >> 5] &= ~bit;
            depth++;
            s->p = ms__skip_space(s->p + 1, s->end);
            if (s->p == s->end || *s->p != (is_object ? '}' : ']')) {
                if (is_object && !ms__scan_key(s)) return false;
                continue;
            }
        } else if (!ms__scan_scalar(s)) {
            return false;
        }
        for (;;) { /* after a value, or before a closing bracket */
            if (depth == 0) return true;
            bool is_object = object[(depth - 1) >> 5] >> ((depth - 1) & 31) & 1;
            s->p = ms__skip_space(s->p, s->end);
            if (s->p < s->end && *s->p == (is_object ? '}' : ']')) {
                s->p++;
                depth--;
                continue;
            }
            if (s->p == s->end || *s->p != ',')
                return ms__scan_fail(s, s->p, MS_E_SYNTAX,
                                     is_object ? "',' or '}'" : "',' or ']'");
            s->p++;
            if (is_object && !ms__scan_key(s)) return false;
            break;
        }
    }
}

static ms_result ms__json_error(ms_error *err, ms_str text, const ms__scan *s)
{
    size_t offset = (size_t)(s->p - text.ptr), line = 1, start = 0;
    if (!err) return s->code;
    for (size_t i = 0; i < offset; i++)
        if (text.ptr[i] == '\n') line++, start = i + 1;
    bool ends = s->p == s->end;
    ms__fail(err, s->code, "JSON at line %u, column %u (offset %u): %s%v%s, expected %s",
             (uint64_t)line, (uint64_t)(offset - start + 1), (uint64_t)offset,
             ends ? "the text ends" : "found '", s->p,
             ms__min((size_t)(s->end - s->p), 12), ends ? "" : "'", s->expected);
    err->offset = offset;
    err->line = (uint32_t)line;
    err->column = (uint32_t)(offset - start + 1);
    return s->code;
}

MS_API ms_result ms_json_check(ms_str text, const ms_json_opts *opts, ms_str *value,
                               ms_error *err)
{
    ms__scan s;
    unsigned depth = opts && opts->max_depth ? opts->max_depth : MS_JSON_MAX_DEPTH;
    if (value) *value = ms__absent();
    if (!text.ptr) text = ms_str_n("", 0);
    if (depth > MS_JSON_MAX_DEPTH)
        return ms__range_fail(err, MS_E_ARGUMENT, "max_depth", depth, 0,
                              MS_JSON_MAX_DEPTH);
    memset(&s, 0, sizeof s);
    s.end = text.ptr + text.len;
    s.repair = opts && opts->repair;
    const char *start = s.p = ms__skip_space(text.ptr, s.end);
    if (!ms__scan_value(&s, depth)) return ms__json_error(err, text, &s);
    const char *stop = s.p;
    s.p = ms__skip_space(s.p, s.end);
    if (s.p != s.end) {
        s.code = MS_E_SYNTAX;
        s.expected = "the end of the text";
        return ms__json_error(err, text, &s);
    }
    if (value) *value = ms_str_n(start, (size_t)(stop - start));
    return MS_OK;
}

MS_API ms_json_kind ms_json_kind_of(ms_str value)
{
    const char *end = value.ptr ? value.ptr + value.len : NULL;
    const char *p = value.ptr ? ms__skip_space(value.ptr, end) : NULL;
    if (p == end) return MS_JSON_NONE;
    switch (*p) {
    case '{': return MS_JSON_OBJECT;
    case '[': return MS_JSON_ARRAY;
    case '"': return MS_JSON_STRING;
    case 't': return MS_JSON_TRUE;
    case 'f': return MS_JSON_FALSE;
    case 'n': return MS_JSON_NULL;
    default: return *p == '-' || ms__is_digit(*p) ? MS_JSON_NUMBER : MS_JSON_NONE;
    }
}

/* Returns the end of the string that opens at p. "Pass" skips without checks. */
static const char *ms__pass_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) {
        p += ms__plain_run(p, end);
        if (p >= end || *p == '"') break;
        if (*p == '\\' && ++p == end) break;
    }
    return p < end ? p + 1 : end;
}

/* Returns the end of the value that starts at p; brackets are counted, not matched. */
static const char *ms__pass_value(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = ms__pass_string(p, end);
        } else if (c == '{' || c == '[') {
            depth++;
            p++;
        } else if (c == '}' || c == ']') {
            if (depth > 0) depth--;
            p++;
        } else if (depth > 0) {
            p++;
            continue;
        } else {
            while (p < end && !ms__is_space(*p) && *p != ',' && *p != '}' && *p != ']' &&
                   *p != ':')
                p++;
        }
        if (depth == 0) break;
    }
    return p;
}

MS_API ms_json_iter ms_json_iterate(ms_str value)
{
    ms_json_iter it;
    ms_json_kind kind = ms_json_kind_of(value);
    memset(&it, 0, sizeof it);
    if (kind != MS_JSON_OBJECT && kind != MS_JSON_ARRAY) return it;
    const char *end = value.ptr + value.len;
    const char *p = ms__skip_space(value.ptr, end) + 1;
    it.object = kind == MS_JSON_OBJECT;
    it.rest = ms_str_n(p, (size_t)(end - p));
    return it;
}

MS_API bool ms_json_next(ms_json_iter *it)
{
    const char *p = it->rest.ptr, *end = p ? p + it->rest.len : NULL;
    it->key = it->value = ms__absent();
    it->rest = ms__absent();
    if (!p) return false;
    p = ms__skip_space(p, end);
    if (p < end && *p == ',') p = ms__skip_space(p + 1, end);
    if (p >= end || *p == '}' || *p == ']') return false;
    if (it->object) {
        const char *start = p;
        if (*p != '"') return false;
        p = ms__pass_string(p, end);
        it->key = ms_str_n(start, (size_t)(p - start));
        p = ms__skip_space(p, end);
        if (p >= end || *p != ':') return false;
        p = ms__skip_space(p + 1, end);
    }
    const char *start = p;
    p = ms__pass_value(p, end);
    if (p == start) return false;
    it->value = ms_str_n(start, (size_t)(p - start));
    it->rest = ms_str_n(p, (size_t)(end - p));
    return true;
}

/* Sets *between to the bytes between the quotes of a JSON string; false: value is not a
 * string. */
static bool ms__string_between(ms_str value, ms_str *between)
{
    if (ms_json_kind_of(value) != MS_JSON_STRING) return false;
    const char *end = value.ptr + value.len;
    const char *p = ms__skip_space(value.ptr, end);
    const char *stop = ms__pass_string(p, end);
    if (stop - p < 2 || stop[-1] != '"') return false;
    *between = ms_str_n(p + 1, (size_t)(stop - p) - 2);
    return true;
}

static MS__ONCE unsigned ms__utf8_write(uint32_t c, char out[4])
{
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (unsigned i = n; --i > 0; c >>= 6) out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Decodes the next character of the inside of a string to out, and moves *p after it.
 * Returns its number of bytes. Invalid bytes become U+FFFD. A backslash that begins no
 * escape stands for itself, so no escape becomes longer. *p must be before end. */
static unsigned ms__string_char(const char **p, const char *end, char out[4])
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *q = *p;
    if (*q != '\\') {
        unsigned bad,
            len = ms__utf8_char((const unsigned char *)q, (size_t)(end - q), &bad);
        *p = q + (len ? len : bad);
        if (len == 0) return ms__utf8_write(0xFFFD, out);
        memcpy(out, q, len);
        return len;
    }
    const char *at = end - q > 1 && q[1] ? strchr(from, q[1]) : NULL;
    int unit = end - q > 1 && q[1] == 'u' ? ms__hex4(q + 2, end) : -1;
    if (unit < 0) {
        *p = q + (at ? 2 : 1);
        out[0] = at ? to[at - from] : '\\';
        return 1;
    }
    *p = q + 6;
    if (unit >= 0xDC00 && unit <= 0xDFFF) return ms__utf8_write(0xFFFD, out);
    if (unit < 0xD800 || unit > 0xDFFF) return ms__utf8_write((uint32_t)unit, out);
    int low = end - q >= 12 && q[6] == '\\' && q[7] == 'u' ? ms__hex4(q + 8, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return ms__utf8_write(0xFFFD, out);
    *p = q + 12;
    return ms__utf8_write(0x10000 + ((uint32_t)(unit - 0xD800) << 10) +
                              (uint32_t)(low - 0xDC00), out);
}

MS_API ms_result ms_json_string(ms_str value, ms_arena *arena, ms_str *out)
{
    ms_str in;
    if (!ms__string_between(value, &in)) return MS_E_KIND;
    const char *end = in.ptr + in.len;
    bool valid = ms_utf8_check(in, NULL);
    if (valid && (in.len == 0 || !memchr(in.ptr, '\\', in.len))) {
        *out = in;
        return MS_OK;
    }
    if (!arena) return MS_E_ARENA;
    /* An escape is longer than its character, a bad byte shorter than U+FFFD. */
    if (!valid && in.len > SIZE_MAX / 3) return MS_E_TOO_LARGE;
    char *copy = (char *)ms_arena_alloc(arena, valid ? in.len : in.len * 3);
    if (!copy) return arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
    size_t n = 0;
    for (const char *p = in.ptr; p < end;) {
        size_t run = ms__plain_run(p, end);
        memcpy(copy + n, p, run);
        n += run;
        p += run;
        if (p < end) n += ms__string_char(&p, end, copy + n);
    }
    *out = ms_str_n(copy, n);
    return MS_OK;
}

MS_API bool ms_json_string_is(ms_str value, ms_str text)
{
    ms_str in;
    char one[4];
    size_t n = 0;
    if (!text.ptr || !ms__string_between(value, &in)) return false;
    if (in.len == text.len && !memchr(in.ptr, '\\', in.len) &&
        memcmp(in.ptr, text.ptr, in.len) == 0)
        return ms_utf8_check(in, NULL);
    for (const char *p = in.ptr, *end = in.ptr + in.len; p < end;) {
        unsigned len = ms__string_char(&p, end, one);
        if (len > text.len - n || memcmp(one, text.ptr + n, len) != 0) return false;
        n += len;
    }
    return n == text.len;
}

MS_API bool ms_json_member(ms_str object, ms_str name, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(object);
    bool found = false;
    if (!it.object) return false;
    while (ms_json_next(&it)) {
        if (!ms_json_string_is(it.key, name)) continue;
        *value = it.value;
        found = true;
    }
    return found;
}

MS_API MS__ONCE bool ms_json_element(ms_str array, size_t index, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(array);
    if (it.object) return false;
    while (ms_json_next(&it)) {
        if (index-- > 0) continue;
        *value = it.value;
        return true;
    }
    return false;
}

/* The parts of a JSON number: its value is the n digits times 10 to the exponent. */
typedef struct ms__number {
    bool negative;
    const char *digits;       /* from the first one other than 0; a '.' may be inside */
    int64_t n, exponent;      /* n 0: the number is 0 */
} ms__number;

/* Splits a JSON number; false: the text is not a number. */
static bool ms__number_split(ms_str text, ms__number *out)
{
    ms__scan s;
    bool dot = false, down;
    const char *p = text.ptr, *end = p ? p + text.len : NULL;
    memset(out, 0, sizeof *out);
    memset(&s, 0, sizeof s);
    s.p = p;
    s.end = end;
    if (p == end || (*p != '-' && !ms__is_digit(*p))) return false;
    if (!ms__scan_number(&s) || s.p != end) return false;
    out->negative = *p == '-';
    for (p += out->negative; p < end && *p != 'e' && *p != 'E'; p++) {
        dot = dot || *p == '.';
        if (*p == '.') continue;
        out->exponent -= dot;
        if (out->n > 0 || *p != '0')
            if (out->n++ == 0) out->digits = p;
    }
    if (p == end) return true;
    int64_t e = 0;
    down = p[1] == '-';
    for (p += ms__is_digit(p[1]) ? 1 : 2; p < end; p++)
        if (e < 100000000000000) e = e * 10 + (*p - '0');
    out->exponent += down ? -e : e;
    return true;
}

/* Returns the integer part of a number times 10 to the power of `places`, without its
 * sign. *exact: only zeros follow it. False: it does not fit. */
static bool ms__number_whole(const ms__number *d, int places, uint64_t *whole,
                             bool *exact)
{
    int64_t before = d->n + d->exponent + places; /* digits before the point */
    const char *p = d->digits;
    *whole = 0;
    *exact = true;
    if (d->n == 0) return true;
    if (before > 20) return false;
    for (int64_t i = 0; i < d->n || i < before; i++) {
        unsigned digit = 0;
        if (i < d->n) {
            if (*p == '.') p++;
            digit = (unsigned)(*p++ - '0');
        }
        if (i >= before) {
            if (digit != 0) *exact = false;
            continue;
        }
        if (*whole > (UINT64_MAX - digit) / 10) return false;
        *whole = *whole * 10 + digit;
    }
    return true;
}

/* At least as many digits as the rounding of a double depends on. */
#define MS__DIGITS_KEPT 770
#define MS__NUMBER_TEXT (MS__DIGITS_KEPT + 24)

/* Spells a number without a decimal point, since in libc the point depends on the locale:
 * 1723.25 becomes 172325e-2. Digits that do not fit become a 1 unless all are zero. */
static void ms__number_spell(const ms__number *d, char out[MS__NUMBER_TEXT])
{
    int64_t i = 0, exponent = d->exponent;
    size_t n = 0;
    bool more = false;
    if (d->negative) out[n++] = '-';
    if (d->n == 0) out[n++] = '0', exponent = 0;
    for (const char *p = d->digits; i < d->n; p++) {
        if (*p == '.') continue;
        if (i++ < MS__DIGITS_KEPT) out[n++] = *p;
        else exponent++, more = more || *p != '0';
    }
    if (more) out[n++] = '1', exponent--;
    out[n++] = 'e';
    if (exponent < 0) out[n++] = '-', exponent = -exponent;
    n += ms__u64_write(exponent < 99999 ? (uint64_t)exponent : 99999u, out + n);
    out[n] = '\0';
}

MS_API ms_result ms_seconds_read(ms_str text, int64_t *ns)
{
    ms__number d;
    uint64_t whole;
    bool exact;
    if (!ms__number_split(text, &d)) return MS_E_SYNTAX;
    if (!ms__number_whole(&d, 9, &whole, &exact) || whole > INT64_MAX) whole = INT64_MAX;
    *ns = d.negative ? -(int64_t)whole : (int64_t)whole;
    return MS_OK;
}

static ms_str ms__trim(ms_str s)
{
    while (s.len > 0 && ms__is_space(s.ptr[0])) s.ptr++, s.len--;
    while (s.len > 0 && ms__is_space(s.ptr[s.len - 1])) s.len--;
    return s;
}

MS_API ms_result ms_json_f64(ms_str value, double *out)
{
    ms__number d;
    char text[MS__NUMBER_TEXT];
    if (ms_json_kind_of(value) != MS_JSON_NUMBER) return MS_E_KIND;
    if (!ms__number_split(ms__trim(value), &d)) return MS_E_SYNTAX;
    ms__number_spell(&d, text);
    double v = strtod(text, NULL);
    if (!(v >= -DBL_MAX && v <= DBL_MAX)) return MS_E_RANGE;
    *out = v;
    return MS_OK;
}

/* Reads the magnitude of an integer in any spelling. */
static ms_result ms__json_integer(ms_str value, uint64_t *magnitude, bool *negative)
{
    ms__number d;
    bool exact;
    if (ms_json_kind_of(value) != MS_JSON_NUMBER) return MS_E_KIND;
    if (!ms__number_split(ms__trim(value), &d)) return MS_E_SYNTAX;
    *negative = d.negative;
    return ms__number_whole(&d, 0, magnitude, &exact) && exact ? MS_OK : MS_E_RANGE;
}

MS_API MS__ONCE ms_result ms_json_u64(ms_str value, uint64_t *out)
{
    uint64_t v;
    bool negative;
    MS__TRY(ms__json_integer(value, &v, &negative));
    if (negative && v > 0) return MS_E_RANGE;
    *out = v;
    return MS_OK;
}

MS_API MS__ONCE ms_result ms_json_i64(ms_str value, int64_t *out)
{
    uint64_t v;
    bool negative;
    MS__TRY(ms__json_integer(value, &v, &negative));
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return MS_E_RANGE;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return MS_OK;
}

MS_API ms_result ms_buf_write(void *buf, const char *bytes, size_t len)
{
    ms_buf *b = (ms_buf *)buf;
    if (len == 0) return MS_OK;
    if (len > b->cap - b->len) {
        size_t cap = b->cap < 256 ? 256 : b->cap;
        while (cap - b->len < len) {
            if (cap > SIZE_MAX / 2) return MS_E_TOO_LARGE;
            cap *= 2;
        }
        if (!b->arena) return MS_E_ARENA;
        char *bigger = (char *)ms_arena_alloc(b->arena, cap);
        if (!bigger) return b->arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
        if (b->len) memcpy(bigger, b->ptr, b->len);
        b->ptr = bigger;
        b->cap = cap;
    }
    memcpy(b->ptr + b->len, bytes, len);
    b->len += len;
    return MS_OK;
}

MS_API MS__ONCE ms_str ms_buf_text(const ms_buf *buf)
{
    return ms_str_n(buf->len ? buf->ptr : "", buf->len);
}

MS_API void ms_json_init(ms_json_writer *w, ms_write_fn write, void *ctx, bool pretty)
{
    memset(w, 0, sizeof *w);
    w->write = write;
    w->ctx = ctx;
    w->pretty = pretty;
}

static void ms__json_flush(ms_json_writer *w)
{
    if (w->result == MS_OK && w->used > 0)
        w->result = w->write(w->ctx, w->stage, w->used);
    w->used = 0;
}

static void ms__json_bytes(ms_json_writer *w, const char *p, size_t n)
{
    if (n > sizeof w->stage - w->used) ms__json_flush(w);
    if (n > sizeof w->stage) {
        if (w->result == MS_OK) w->result = w->write(w->ctx, p, n);
        return;
    }
    if (n > 0) memcpy(w->stage + w->used, p, n);
    w->used += n;
}

static void ms__json_byte(ms_json_writer *w, char c) { ms__json_bytes(w, &c, 1); }

static MS__ONCE void ms__json_newline(ms_json_writer *w)
{
    if (!w->pretty) return;
    ms__json_byte(w, '\n');
    for (uint32_t i = 0; i < w->depth; i++) ms__json_bytes(w, "  ", 2);
}

static void ms__json_misuse(ms_json_writer *w, ms_result code)
{
    if (w->result == MS_OK) w->result = code;
}

static bool ms__json_in_object(const ms_json_writer *w)
{
    uint32_t level = w->depth - 1;
    return w->depth > 0 && (w->object[level >> 5] >> (level & 31) & 1);
}

/* Writes the comma and white space before a value or a member name. */
static void ms__json_before(ms_json_writer *w, bool key)
{
    if (key != (ms__json_in_object(w) && !w->after_key))
        ms__json_misuse(w, MS_E_ARGUMENT);
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0 && w->has_item) ms__json_misuse(w, MS_E_ARGUMENT);
    if (w->depth > 0) {
        if (w->has_item) ms__json_byte(w, ',');
        ms__json_newline(w);
    }
    w->has_item = true;
}

MS_API void ms_json_begin(ms_json_writer *w, ms_json_kind kind)
{
    uint32_t bit = (uint32_t)1 << (w->depth & 31);
    ms__json_before(w, false);
    if (kind != MS_JSON_OBJECT && kind != MS_JSON_ARRAY)
        ms__json_misuse(w, MS_E_ARGUMENT);
    if (w->depth == 32 * sizeof w->object / sizeof w->object[0]) {
        ms__json_misuse(w, MS_E_DEPTH);
        return;
    }
    if (kind == MS_JSON_OBJECT) w->object[w->depth >> 5] |= bit;
    else w->object[w->depth >> 5] &= ~bit;
    ms__json_byte(w, kind == MS_JSON_OBJECT ? '{' : '[');
    w->depth++;
    w->has_item = false;
}

MS_API void ms_json_end(ms_json_writer *w)
{
    bool object = ms__json_in_object(w);
    if (w->depth == 0 || w->after_key) {
        ms__json_misuse(w, MS_E_ARGUMENT);
        return;
    }
    w->depth--;
    if (w->has_item) ms__json_newline(w);
    ms__json_byte(w, object ? '}' : ']');
    w->has_item = true;
}

static void ms__json_colon(ms_json_writer *w)
{
    ms__json_byte(w, ':');
    if (w->pretty) ms__json_byte(w, ' ');
    w->after_key = true;
}

/* Returns the letter of a short escape; 0: the character has none. */
static char ms__escape_letter(unsigned char c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

/* Writes short runs of plain characters, each with the escaped character after it, while
 * they fit: text that contains JSON has one every few bytes. Returns the start of the
 * rest. */
static const char *ms__json_short(ms_json_writer *w, const char *p, const char *end)
{
#if MS__BY_16
    while (end - p >= 16 && sizeof w->stage - w->used >= 18) {
        unsigned run = ms__plain_16((const unsigned char *)p);
        char letter = run < 16 ? ms__escape_letter((unsigned char)p[run]) : 0;
        if (!letter) break;
        memcpy(w->stage + w->used, p, 16);
        w->stage[w->used + run] = '\\';
        w->stage[w->used + run + 1] = letter;
        w->used += run + 2;
        p += run + 1;
    }
#else
    (void)w, (void)end;
#endif
    return p;
}

/* Writes the inside of a string. */
static void ms__json_escaped(ms_json_writer *w, ms_str s)
{
    static const char hex[] = "0123456789abcdef";
    const char *p = s.ptr, *end = s.ptr ? s.ptr + s.len : NULL;
    while (p < end) {
        p = ms__json_short(w, p, end);
        size_t run = ms__plain_run(p, end);
        ms__json_bytes(w, p, run);
        p += run;
        if (p == end) break;
        unsigned char c = (unsigned char)*p;
        if (c >= 0x80) {
            unsigned bad, len = ms__utf8_char((const unsigned char *)p, (size_t)(end - p),
                                              &bad);
            ms__json_bytes(w, len ? p : "\xEF\xBF\xBD", len ? len : 3);
            p += len ? len : bad;
            continue;
        }
        char letter = ms__escape_letter(c);
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (letter) escape[1] = letter;
        ms__json_bytes(w, escape, letter ? 2 : 6);
        p++;
    }
}

static void ms__json_text(ms_json_writer *w, ms_str s)
{
    ms__json_byte(w, '"');
    ms__json_escaped(w, s);
    ms__json_byte(w, '"');
}

MS_API void ms_json_key(ms_json_writer *w, ms_str name)
{
    ms__json_before(w, true);
    ms__json_text(w, name);
    ms__json_colon(w);
}

MS_API void ms_json_put_string(ms_json_writer *w, ms_str text)
{
    ms__json_before(w, false);
    ms__json_text(w, text);
}

static void ms__json_scalar(ms_json_writer *w, const char *p, size_t n)
{
    ms__json_before(w, false);
    ms__json_bytes(w, p, n);
}


MS_API void ms_json_put_u64(ms_json_writer *w, uint64_t value)
{
    char text[20];
    ms__json_scalar(w, text, ms__u64_write(value, text));
}

MS_API void ms_json_put_seconds(ms_json_writer *w, int64_t ns)
{
    char text[MS__SECONDS_MAX];
    size_t n = ms__seconds_write(ns, text);
    if (n == 0) ms__json_scalar(w, "null", 4);
    else ms__json_scalar(w, text, n);
}

/* Writes the string token at p as it is spelled, with invalid bytes repaired; returns its
 * end. */
static const char *ms__json_string_token(ms_json_writer *w, const char *p,
                                         const char *end)
{
    const char *stop = ms__pass_string(p, end);
    ms__scan s;
    memset(&s, 0, sizeof s);
    s.p = p;
    s.end = stop;
    if (ms__scan_string(&s) && s.p == stop) {
        ms__json_bytes(w, p, (size_t)(stop - p));
        return stop;
    }
    const char *inside_end = stop - 1;
    char one[4];
    ms__json_byte(w, '"');
    for (p++; p < inside_end;) {
        const char *from = p;
        unsigned len = ms__string_char(&p, inside_end, one);
        if (*from == '\\' && p - from > 1 &&
            !(len == 3 && memcmp(one, "\xEF\xBF\xBD", 3) == 0))
            ms__json_bytes(w, from, (size_t)(p - from));
        else
            ms__json_escaped(w, ms_str_n(one, len));
    }
    ms__json_byte(w, '"');
    return stop;
}

MS_API void ms_json_put_raw(ms_json_writer *w, ms_str json)
{
    const char *p = json.ptr, *end = json.ptr ? json.ptr + json.len : NULL;
    if (ms_json_kind_of(json) == MS_JSON_NONE) {
        ms__json_misuse(w, MS_E_ARGUMENT);
        return;
    }
    while (p < end) {
        char c = *p;
        if (ms__is_space(c) || c == ',') {
            p++;
        } else if (c == '{' || c == '[') {
            ms_json_begin(w, c == '{' ? MS_JSON_OBJECT : MS_JSON_ARRAY);
            p++;
        } else if (c == '}' || c == ']') {
            if (ms__json_in_object(w) != (c == '}')) ms__json_misuse(w, MS_E_ARGUMENT);
            ms_json_end(w);
            p++;
        } else if (c == ':') {
            ms__json_colon(w);
            p++;
        } else if (c == '"') {
            ms__json_before(w, ms__json_in_object(w) && !w->after_key);
            p = ms__json_string_token(w, p, end);
        } else {
            const char *stop = ms__pass_value(p, end);
            ms__json_scalar(w, p, (size_t)(stop - p));
            p = stop;
        }
    }
}

MS_API void ms_json_separator(ms_json_writer *w, char c)
{
    if (w->depth == 0) w->has_item = false;
    ms__json_byte(w, c);
}

MS_API ms_result ms_json_finish(ms_json_writer *w)
{
    ms__json_flush(w);
    if (w->depth > 0) ms__json_misuse(w, MS_E_ARGUMENT);
    return w->result;
}
