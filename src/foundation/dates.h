
/* ==== [dates] times as text, and back =========================================== */

/* Days since 1970-01-01 of a Gregorian date, and back. Both count years from the 1st of
 * March, so that a leap day is the last day of its year, in cycles of 400 years. */
#define MS__DAYS_TO_EPOCH 719468 /* from 0000-03-01 */

static int64_t ms__days_of(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
           MS__DAYS_TO_EPOCH;
}

static void ms__date_of(int64_t days, unsigned date[3])
{
    days += MS__DAYS_TO_EPOCH;
    int64_t era = days / 146097, of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    date[2] = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    date[1] = (unsigned)(month < 10 ? month + 3 : month - 9);
    date[0] = (unsigned)(year + era * 400 + (date[1] <= 2));
}

static void ms__put_digits(char *out, unsigned digits, uint64_t v)
{
    while (digits-- > 0) {
        out[digits] = (char)('0' + v % 10);
        v /= 10;
    }
}

#define MS__SECOND ((int64_t)1000000000) /* in nanoseconds */

/* Writes a time as ms_json_put_seconds does, without a NUL. Returns the length, 0 for
 * MS_TIME_NONE. */
#define MS__SECONDS_MAX 24

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
    unsigned date[3], width = 9;
    int64_t part = (ns % MS__SECOND + MS__SECOND) % MS__SECOND;
    if (ns == MS_TIME_NONE) return 0;
    int64_t seconds = ns / MS__SECOND - (ns % MS__SECOND < 0);
    int64_t of_day = (seconds % 86400 + 86400) % 86400;
    ms__date_of((seconds - of_day) / 86400, date);
    memcpy(out, "0000-00-00T00:00:00", 19);
    ms__put_digits(out, 4, date[0]);
    ms__put_digits(out + 5, 2, date[1]);
    ms__put_digits(out + 8, 2, date[2]);
    ms__put_digits(out + 11, 2, (uint64_t)(of_day / 3600));
    ms__put_digits(out + 14, 2, (uint64_t)(of_day / 60 % 60));
    ms__put_digits(out + 17, 2, (uint64_t)(of_day % 60));
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
static bool ms__get_digits(ms_str *s, unsigned n, unsigned *out)
{
    *out = 0;
    if (s->len < n) return false;
    for (unsigned i = 0; i < n; i++) {
        char c = s->ptr[i];
        if (c < '0' || c > '9') return false;
        *out = *out * 10 + (unsigned)(c - '0');
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
    unsigned hours = 0, minutes = 0, digit, places = 0;
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
    static const uint8_t days[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned v[6]; /* year, month, day, hour, minute, second */
    ms_str s = text;
    for (unsigned i = 0; i < 6; i++) {
        bool mark = i == 0 || ms__get_char(&s, "?--T::"[i]) ||
                    (i == 3 && ms__get_char(&s, ' '));
        if (!mark || !ms__get_digits(&s, i == 0 ? 4 : 2, &v[i])) return MS_E_SYNTAX;
    }
    unsigned year = v[0], month = v[1], day = v[2];
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days[month - 1] ||
        v[3] > 23 || v[4] > 59 || v[5] > 60)
        return MS_E_RANGE;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month == 2 && day == 29 && !leap) return MS_E_RANGE;
    int64_t part, t = ms__days_of(year, month, day) * 86400;
    t += v[3] * 3600 + v[4] * 60 + v[5];
    if (!ms__iso_tail(s, &t, &part)) return MS_E_SYNTAX;
    if (t >= INT64_MAX / MS__SECOND) *ns = INT64_MAX;
    else if (t < -INT64_MAX / MS__SECOND) *ns = -INT64_MAX;
    else *ns = t * MS__SECOND + part;
    return MS_OK;
}
