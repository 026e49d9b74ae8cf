
/* ==== [dates] times as text, and back =========================================== */

/* Days since 1970-01-01 of a Gregorian date, and back. Both count years from the 1st of
 * March, so that a leap day is the last day of its year. The days that nanoseconds reach
 * fit 32 bits, and lie after the year 0. */
#define MS__DAYS_TO_EPOCH 719468 /* from 0000-03-01 */

static MS__NOINLINE uint32_t ms__year_begin(uint32_t year)
{
    return year * 365 + year / 4 - year / 100 + year / 400;
}

static int32_t ms__days_of(uint32_t year, uint32_t month, uint32_t day)
{
    year -= month <= 2;
    month += month > 2 ? -3u : 9u;
    return (int32_t)(ms__year_begin(year) + (153 * month + 2) / 5 + day - 1) -
           MS__DAYS_TO_EPOCH;
}

/* date: year, month, day. */
static void ms__date_of(int32_t day, uint32_t date[3])
{
    uint32_t days = (uint32_t)(day + MS__DAYS_TO_EPOCH);
    uint32_t year = days * 400 / 146097 + 1; /* a year too late, perhaps two */
    while (ms__year_begin(year) > days) year--;
    days -= ms__year_begin(year);
    uint32_t month = (5 * days + 2) / 153;
    date[2] = days - (153 * month + 2) / 5 + 1;
    date[1] = month < 10 ? month + 3 : month - 9;
    date[0] = year + (date[1] <= 2);
}

static void ms__put_digits(char *out, unsigned digits, uint64_t v)
{
    while (digits-- > 0) {
        out[digits] = (char)('0' + v % 10);
        v /= 10;
    }
}

#define MS__SECOND ((int64_t)1000000000) /* in nanoseconds */

#define MS__SECONDS_MAX 24

/* Writes a time as ms_json_put_seconds does, without a NUL. Returns the length, 0 for
 * MS_TIME_NONE. */
static size_t ms__seconds_write(int64_t ns, char out[MS__SECONDS_MAX])
{
    size_t n = 0;
    uint64_t u = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    if (ns == MS_TIME_NONE) return 0;
    if (ns < 0) out[n++] = '-';
    n += ms__u64_write(u / 1000000000u, out + n);
    if (u % 1000000000u == 0) return n;
    out[n] = '.';
    ms__put_digits(out + n + 1, 9, u % 1000000000u);
    n += 10;
    while (out[n - 1] == '0') n--;
    return n;
}

MS_API size_t ms_iso_write(int64_t ns, char out[MS_ISO_MAX])
{
    static const uint8_t places[6] = {0, 5, 8, 11, 14, 17};
    uint32_t v[6], width = 9; /* v: year to second */
    int64_t part = ns % MS__SECOND, seconds = ns / MS__SECOND;
    if (ns == MS_TIME_NONE) return 0;
    if (part < 0) part += MS__SECOND, seconds--;
    int32_t day = (int32_t)(seconds / 86400), of_day = (int32_t)(seconds % 86400);
    if (of_day < 0) of_day += 86400, day--;
    ms__date_of(day, v);
    v[3] = (uint32_t)of_day / 3600;
    v[4] = (uint32_t)of_day / 60 % 60;
    v[5] = (uint32_t)of_day % 60;
    memcpy(out, "0000-00-00T00:00:00", 19);
    for (unsigned i = 0; i < 6; i++) ms__put_digits(out + places[i], i ? 2 : 4, v[i]);
    size_t len = 19;
    if (part > 0) {
        for (; part % 1000 == 0; part /= 1000) width -= 3;
        out[len] = '.';
        ms__put_digits(out + len + 1, width, (uint64_t)part);
        len += 1 + width;
    }
    out[len] = 'Z';
    return len + 1;
}

/* Reads n decimal digits; false: there are fewer. */
static MS__ONCE bool ms__get_digits(ms_str *s, unsigned n, uint32_t *out)
{
    *out = 0;
    if (s->len < n) return false;
    for (unsigned i = 0; i < n; i++) {
        char c = s->ptr[i];
        if (c < '0' || c > '9') return false;
        *out = *out * 10 + (uint32_t)(c - '0');
    }
    s->ptr += n;
    s->len -= n;
    return true;
}

static bool ms__get_char(ms_str *s, char c)
{
    if (s->len == 0 || *s->ptr != c) return false;
    s->ptr++;
    s->len--;
    return true;
}

/* Reads the text after the seconds: a fraction, an offset. */
static bool ms__iso_tail(ms_str s, int64_t *seconds, int64_t *part)
{
    uint32_t hours = 0, minutes = 0, digit, places = 0;
    *part = 0;
    if (ms__get_char(&s, '.')) {
        for (; places < 9 && ms__get_digits(&s, 1, &digit); places++)
            *part = *part * 10 + digit;
        if (places == 0) return false;
    }
    for (; places < 9; places++) *part *= 10;
    if (!ms__get_char(&s, 'Z') && s.len > 0) {
        bool west = ms__get_char(&s, '-');
        if (!west && !ms__get_char(&s, '+')) return false;
        if (!ms__get_digits(&s, 2, &hours)) return false;
        (void)ms__get_char(&s, ':');
        if (!ms__get_digits(&s, 2, &minutes) || hours > 23 || minutes > 59) return false;
        int64_t offset = hours * 3600 + minutes * 60;
        *seconds += west ? offset : -offset;
    }
    return s.len == 0;
}

MS_API ms_result ms_iso_read(ms_str text, int64_t *ns)
{
    uint32_t v[6], date[3]; /* year, month, day, hour, minute, second */
    ms_str s = text;
    for (unsigned i = 0; i < 6; i++) {
        bool mark = i == 0 || ms__get_char(&s, "?--T::"[i]) ||
                    (i == 3 && ms__get_char(&s, ' '));
        if (!mark || !ms__get_digits(&s, i == 0 ? 4 : 2, &v[i])) return MS_E_SYNTAX;
    }
    if (v[0] < 1 || v[1] < 1 || v[1] > 12 || v[3] > 23 || v[4] > 59 || v[5] > 60)
        return MS_E_RANGE;
    int32_t day = ms__days_of(v[0], v[1], v[2]);
    ms__date_of(day, date);
    if (date[1] != v[1] || date[2] != v[2]) return MS_E_RANGE; /* the month is shorter */
    int64_t part, t = (int64_t)day * 86400;
    t += v[3] * 3600 + v[4] * 60 + v[5];
    if (!ms__iso_tail(s, &t, &part)) return MS_E_SYNTAX;
    if (t >= INT64_MAX / MS__SECOND) *ns = INT64_MAX;
    else if (t < -INT64_MAX / MS__SECOND) *ns = -INT64_MAX;
    else *ns = t * MS__SECOND + part;
    return MS_OK;
}
