/* msgstore - converts, shows and counts messages of agent programs.
 *
 *     msgstore convert --from openai --to framework chat.jsonl
 *     msgstore view trace.jsonl --agent worker
 *     msgstore history trace.jsonl --agent manager --team worker,writer
 *     msgstore info trace.jsonl
 *
 * A program on the public interface of msgstore.h alone. From the top: exit codes, text
 * for terminals, numbers and times, a counting table, the input (a splitter that never
 * holds a file; what a value is), the output, the commands, options and main. A function
 * that returns int returns an exit code, and whoever finds that it is not 0 says why. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])


/* ---- Exit codes -------------------------------------------------------------------- */

enum { FINE, FAILED, USAGE, DAMAGED, NOT_FOUND, CONFLICT, BUSY };

static const char *const exit_texts[] = {
    "fine", "failed: bad input, no memory, cannot read or write", "usage",
    "stored bytes are damaged, or foreign", "no such file or location",
    "conflict with what is stored", "busy: somebody else writes",
};

/* Results that end with another code than FAILED. */
static const struct {
    ms_result result;
    int code;
} exit_codes[] = {
    {MS_OK, FINE},
    {MS_E_DAMAGED, DAMAGED},
    {MS_E_FOREIGN, DAMAGED},
    {MS_E_NOT_FOUND, NOT_FOUND},
    {MS_E_CONFLICT, CONFLICT},
    {MS_E_KEY_REUSED, CONFLICT},
};

static int exit_code(ms_result result)
{
    for (size_t i = 0; i < COUNT_OF(exit_codes); i++) {
        if (exit_codes[i].result == result) return exit_codes[i].code;
    }
    return FAILED;
}


/* ---- Text for terminals: columns, and nothing that could steer a terminal ---------- */

typedef struct span {
    uint32_t first, last;
} span;

/* clang-format off */
/* Characters of two columns: East Asian wide and full-width ones, pictures. Sorted. */
static const span wide[] = {
    {0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec},
    {0x23f0, 0x23f0}, {0x23f3, 0x23f3}, {0x25fd, 0x25fe}, {0x2614, 0x2615},
    {0x2648, 0x2653}, {0x267f, 0x267f}, {0x2693, 0x2693}, {0x26a1, 0x26a1},
    {0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce},
    {0x26d4, 0x26d4}, {0x26ea, 0x26ea}, {0x26f2, 0x26f3}, {0x26f5, 0x26f5},
    {0x26fa, 0x26fa}, {0x26fd, 0x26fd}, {0x2705, 0x2705}, {0x270a, 0x270b},
    {0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755},
    {0x2757, 0x2757}, {0x2795, 0x2797}, {0x27b0, 0x27b0}, {0x27bf, 0x27bf},
    {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55}, {0x2e80, 0x3029},
    {0x302e, 0x303e}, {0x3041, 0x3098}, {0x309b, 0x3247}, {0x3250, 0x4dbf},
    {0x4e00, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
    {0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff01, 0xff60}, {0xffe0, 0xffe6},
    {0x16fe0, 0x18cff}, {0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335},
    {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3},
    {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440},
    {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567},
    {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f},
    {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df},
    {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a},
    {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

/* Characters of none: marks that go on the one before them. Sorted. */
static const span joining[] = {
    {0x300, 0x36f}, {0x483, 0x489}, {0x591, 0x5bd}, {0x5bf, 0x5bf}, {0x5c1, 0x5c2},
    {0x5c4, 0x5c5}, {0x610, 0x61a}, {0x64b, 0x65f}, {0x670, 0x670}, {0x6d6, 0x6dc},
    {0x6df, 0x6e4}, {0x6e7, 0x6e8}, {0x6ea, 0x6ed}, {0x8d3, 0x902}, {0x93a, 0x93a},
    {0x93c, 0x93c}, {0x941, 0x948}, {0x94d, 0x94d}, {0x951, 0x957}, {0xe31, 0xe31},
    {0xe34, 0xe3a}, {0xe47, 0xe4e}, {0xeb1, 0xeb1}, {0xeb4, 0xebc}, {0xec8, 0xecd},
    {0x1160, 0x11ff}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x2060, 0x2064}, {0x20d0, 0x20f0}, {0x2de0, 0x2dff}, {0x302a, 0x302d},
    {0x3099, 0x309a}, {0xa66f, 0xa672}, {0xa674, 0xa67d}, {0xd7b0, 0xd7fb},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0001, 0xe01ef},
};
/* clang-format on */

static bool is_in(const span *spans, size_t n, uint32_t point)
{
    while (n > 0) {
        const span *mid = spans + n / 2;
        if (point >= mid->first && point <= mid->last) return true;
        if (point > mid->last) spans = mid + 1;
        n = point > mid->last ? n - n / 2 - 1 : n / 2;
    }
    return false;
}

static unsigned columns_of(uint32_t point)
{
    if (is_in(joining, COUNT_OF(joining), point)) return 0;
    return is_in(wide, COUNT_OF(wide), point) ? 2 : 1;
}

/* Takes the next character off a text that is not empty; U+FFFD for a byte that is not
 * UTF-8. */
static uint32_t next_point(ms_str *text)
{
    const unsigned char *p = (const unsigned char *)text->ptr;
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    bool good = len <= text->len && ms_utf8_check(ms_str_n(text->ptr, len), NULL);
    uint32_t point = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; good && i < len; i++) point = point << 6 | (p[i] & 0x3fu);
    if (!good) len = 1;
    *text = ms_str_n(text->ptr + len, text->len - len);
    return good ? point : 0xfffd;
}

/* What is shown for a character: itself, or a picture of a control character. Marks that
 * turn the direction of the line are controls too. */
static uint32_t visible(uint32_t point)
{
    static const span controls[] = {
        {0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e},
        {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
    };
    if (point == '\n' || point == '\r' || point == '\t') return ' ';
    if (point < 0x20) return 0x2400 + point;
    if (point == 0x7f) return 0x2421;
    return is_in(controls, COUNT_OF(controls), point) ? 0xfffd : point;
}

static size_t put_utf8(char *out, uint32_t point)
{
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, point >>= 6) {
        out[i] = (char)(0x80 | (point & 0x3f));
    }
    out[0] = (char)(len == 1 ? point : (0xf00u >> len & 0xff) | point);
    return len;
}

/* A piece of a line: text is put in cleaned, up to `limit` columns. */
typedef struct cell {
    char *buf;
    size_t cap, len;
    unsigned width, limit;    /* columns */
    size_t cut;               /* where to go back to for a final "…" */
    unsigned cut_width;
    bool blank;               /* the last was a blank: further ones are dropped */
    bool full;
} cell;

static cell cell_over(char *buf, size_t cap, unsigned limit)
{
    cell c = {0};
    c.buf = buf;
    c.cap = cap;
    c.limit = limit;
    c.blank = true;
    return c;
}

static void cell_put(cell *c, ms_str text)
{
    while (text.len > 0 && !c->full) {
        uint32_t point = visible(next_point(&text));
        unsigned columns = columns_of(point);
        if (point == ' ' && c->blank) continue;
        if (c->width + columns > c->limit || c->cap - c->len < 8) {
            c->len = c->cut + put_utf8(c->buf + c->cut, 0x2026);
            c->width = c->cut_width + 1;
            c->full = true;
            return;
        }
        c->blank = point == ' ';
        c->len += put_utf8(c->buf + c->len, point);
        c->width += columns;
        if (c->width >= c->limit) continue;
        c->cut = c->len;
        c->cut_width = c->width;
    }
}

/* Says something on stderr. What comes from files or arguments cannot reach the terminal
 * as control characters: the whole line is cleaned. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static void complain(const char *format, ...)
{
    char raw[2048], clean[6 * sizeof raw];
    va_list list;
    va_start(list, format);
    vsnprintf(raw, sizeof raw, format, list);
    va_end(list);
    cell c = cell_over(clean, sizeof clean, sizeof clean);
    cell_put(&c, ms_str_of(raw));
    fprintf(stderr, "%smsgstore: %.*s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
            (int)c.len, c.buf);
}

/* Says what a library call returned. */
static int complain_of(const char *what, ms_result result, const ms_error *err)
{
    complain("%s: %s", what, err->message);
    return exit_code(result);
}

static int no_memory(void)
{
    complain("no memory");
    return FAILED;
}


/* ---- Numbers and times ------------------------------------------------------------- */

/* Takes n digits off the text. */
static bool parse_digits(const char **text, size_t n, int *out)
{
    *out = 0;
    for (; n > 0; n--, (*text)++) {
        if (**text < '0' || **text > '9') return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

/* "T09:30", "T09:30:05", "T09:30:05.25", each with or without a Z. */
static bool parse_clock(const char *at, struct tm *t, double *fraction)
{
    if (*at != 'T' && *at != ' ') return false;
    at++;
    if (!parse_digits(&at, 2, &t->tm_hour) || *at++ != ':') return false;
    if (!parse_digits(&at, 2, &t->tm_min)) return false;
    if (*at == ':' && (at++, !parse_digits(&at, 2, &t->tm_sec))) return false;
    if (*at == '.') {
        size_t len = 1 + strspn(at + 1, "0123456789");
        char text[24] = "0";
        memcpy(text + 1, at, len < 20 ? len : 20);
        if (len < 2 || ms_f64_read(ms_str_of(text), fraction) != MS_OK) return false;
        at += len;
    }
    if (*at == 'Z') at++;
    return *at == '\0' && t->tm_hour < 24 && t->tm_min < 60 && t->tm_sec < 60;
}

/* Seconds since 1970, or a date with or without a time, in UTC. */
static bool parse_time(const char *text, double *out)
{
    const char *at = text;
    struct tm t = {0};
    double fraction = 0;
    if (ms_f64_read(ms_str_of(text), out) == MS_OK) return true;
    if (!parse_digits(&at, 4, &t.tm_year) || *at++ != '-') return false;
    if (!parse_digits(&at, 2, &t.tm_mon) || *at++ != '-') return false;
    if (!parse_digits(&at, 2, &t.tm_mday)) return false;
    if (*at != '\0' && !parse_clock(at, &t, &fraction)) return false;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    struct tm same = t;
    *out = (double)timegm(&same) + fraction;
    return same.tm_mday == t.tm_mday && same.tm_mon == t.tm_mon; /* no 31st of June */
}

enum { TIME_MAX = 40 };

/* "2026-03-02T09:00:05Z"; the plain number when it is no year of four digits. */
static const char *time_text(double seconds, char out[TIME_MAX])
{
    bool fits = seconds >= -62167219200.0 && seconds < 253402300800.0;
    time_t whole = fits ? (time_t)seconds : 0;
    if (fits && (double)whole > seconds) whole--;
    struct tm t;
    if (!fits || gmtime_r(&whole, &t) == NULL ||
        strftime(out, TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &t) == 0) {
        out[ms_f64_write(seconds, out)] = '\0';
    }
    return out;
}


/* ---- A counting table: text -> number of times, bytes ------------------------------ */

typedef struct tally_row {
    ms_str text;
    uint64_t count, bytes;
} tally_row;

typedef struct tally {
    ms_arena arena;           /* the texts */
    tally_row *rows;          /* open addressing, at most half full */
    size_t cap, used;
} tally;

static tally_row *tally_slot(const tally *t, ms_str text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * 1099511628211u;
    }
    size_t at = (size_t)(hash ^ hash >> 32) & (t->cap - 1);
    while (t->rows[at].text.ptr != NULL && !ms_str_equal(t->rows[at].text, text)) {
        at = (at + 1) & (t->cap - 1);
    }
    return &t->rows[at];
}

static bool tally_grow(tally *t)
{
    tally old = *t;
    t->cap = old.cap > 0 ? old.cap * 2 : 64;
    t->rows = calloc(t->cap, sizeof *t->rows);
    for (size_t i = 0; t->rows != NULL && i < old.cap; i++) {
        if (old.rows[i].text.ptr != NULL) *tally_slot(t, old.rows[i].text) = old.rows[i];
    }
    if (t->rows == NULL) {
        *t = old;
        return false;
    }
    free(old.rows);
    return true;
}

/* The row of a text, a new one with zeroes if need be, until the next call; NULL: no
 * memory. */
static tally_row *tally_row_of(tally *t, ms_str text)
{
    if (t->used * 2 >= t->cap && !tally_grow(t)) return NULL;
    if (text.ptr == NULL) text = MS_STR("");
    tally_row *row = tally_slot(t, text);
    if (row->text.ptr != NULL) return row;
    char *copy = ms_arena_alloc(&t->arena, text.len);
    if (copy == NULL) return NULL;
    memcpy(copy, text.ptr, text.len);
    row->text = ms_str_n(copy, text.len);
    t->used++;
    return row;
}

static void tally_free(tally *t)
{
    free(t->rows);
    ms_arena_deinit(&t->arena);
}


/* ---- Options of all commands ------------------------------------------------------- */

/* clang-format off */
#define OPTIONS(X) /* name, word, does it take an argument */                           \
    X(AGENT, "agent", 1)      X(ALL, "all", 0)        X(ARRAY, "array", 0)              \
    X(CONVERSATION, "conversation", 0)                X(FORMAT, "format", 1)            \
    X(FROM, "from", 1)        X(GLOBAL, "global", 0)  X(HELP, "help", 0)                \
    X(LENIENT, "lenient", 0)  X(LIMIT, "limit", 1)    X(LOCATION, "location", 1)        \
    X(OLDEST, "oldest", 0)    X(PHASE, "phase", 1)    X(SCOPE, "scope", 1)              \
    X(SINCE, "since", 1)      X(TEAM, "team", 1)      X(TIMELINE, "timeline", 0)        \
    X(TO, "to", 1)            X(TURN, "turn", 1)      X(UNTIL, "until", 1)              \
    X(WITH_LOCATION, "with-location", 0)
/* clang-format on */

enum {
#define X(name, word, argument) O_##name,
    OPTIONS(X)
#undef X
};

#define O_BIT(name) ((uint32_t)1 << O_##name)
#define GIVEN(o, name) (((o)->given & O_BIT(name)) != 0)

typedef struct options {
    uint32_t given;           /* O_BIT of each that was given */
    const char *input;        /* file, or "-" */
    const ms_dialect *from;   /* NULL: look at each message */
    const ms_dialect *to;     /* NULL: a table */
    const char *location, *agent, *turn;
    ms_str *team;
    size_t n_team, limit;
    double since, until;
    ms_scope_kind scope;
    int64_t phase;
} options;


/* ---- Input: a splitter over blocks of 64 KiB ------------------------------------------
 * It finds where a value ends by counting brackets outside of strings; whether the value
 * is JSON says ms_json_check afterwards. Only the value at hand is in memory, at most
 * ELEMENT_MAX bytes. Text that cannot become JSON is not collected: each time its length
 * has doubled, what is there is checked. */

#define BLOCK_SIZE ((size_t)64 << 10)
#define ELEMENT_MAX ((size_t)256 << 20)
#define PROGRESS_STEP ((uint64_t)16 << 20)

typedef struct source {
    const char *name;         /* for messages */
    int fd;
    bool eof, progress;
    char *buf;                /* bytes [start, len) are read and not used yet */
    size_t cap, start, len;
    uint64_t base;            /* offset in the file of buf[0] */
    uint64_t line;            /* of buf[start], from 1 */
    uint64_t line_base;       /* offset in the file where that line begins */
    uint64_t told;            /* offset of the last progress message */
} source;

static int source_open(source *s, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    memset(s, 0, sizeof *s);
    s->name = standard ? "standard input" : path;
    s->line = 1;
    s->progress = isatty(STDERR_FILENO) != 0;
    s->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd >= 0) return FINE;
    int code = errno == ENOENT ? NOT_FOUND : FAILED;
    complain("%s: %s", path, strerror(errno));
    return code;
}

static void source_close(source *s)
{
    if (s->told > 0) fputs("\r\033[K", stderr);
    if (s->fd != STDIN_FILENO) close(s->fd);
    free(s->buf);
}

/* Counts the lines in the first `len` bytes behind the start. */
static void count_lines(const source *s, size_t len, uint64_t *line, uint64_t *line_base)
{
    const char *from = s->buf + s->start, *end = from + len, *newline;
    while (from < end && (newline = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        ++*line;
        from = newline + 1;
        *line_base = s->base + (uint64_t)(from - s->buf);
    }
}

/* Says what is wrong at the byte `at` behind the start, and where that is in the file. */
static int complain_at(const source *s, size_t at, const char *what, const char *text)
{
    uint64_t line = s->line, line_base = s->line_base, offset = s->base + s->start + at;
    count_lines(s, at, &line, &line_base);
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s%s", s->name,
             line, offset - line_base + 1, offset, what, text);
    return FAILED;
}

/* The first `len` bytes have been used. */
static void source_take(source *s, size_t len)
{
    count_lines(s, len, &s->line, &s->line_base);
    s->start += len;
}

/* Makes room for a block behind what is there. */
static int source_room(source *s)
{
    if (s->start > 0) {
        s->len -= s->start;
        memmove(s->buf, s->buf + s->start, s->len);
        s->base += s->start;
        s->start = 0;
    }
    if (s->cap - s->len >= BLOCK_SIZE) return FINE;
    size_t cap = s->cap > 0 ? s->cap * 2 : 2 * BLOCK_SIZE;
    if (cap > ELEMENT_MAX) cap = ELEMENT_MAX + 2 * BLOCK_SIZE;
    char *buf = realloc(s->buf, cap);
    if (buf == NULL) return no_memory();
    s->buf = buf;
    s->cap = cap;
    return FINE;
}

/* Reads on; at the end of the file sets eof. */
static int source_read(source *s)
{
    ssize_t n;
    int code = s->eof ? FINE : source_room(s);
    if (code != FINE || s->eof) return code;
    do {
        n = read(s->fd, s->buf + s->len, BLOCK_SIZE);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        complain("%s: cannot read: %s", s->name, strerror(errno));
        return FAILED;
    }
    s->eof = n == 0;
    s->len += (size_t)n;
    uint64_t offset = s->base + s->len;
    if (!s->progress || offset - s->told < PROGRESS_STEP) return FINE;
    s->told = offset;
    fprintf(stderr, "\r%" PRIu64 " MB read", offset / 1000000);
    return FINE;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Sets *c to the next byte that is not white space, or to -1 at the end of the file. */
static int source_peek(source *s, int *c)
{
    int code = FINE;
    *c = -1;
    while (code == FINE) {
        size_t len = 0;
        while (s->start + len < s->len && is_space(s->buf[s->start + len])) len++;
        if (len > 0) source_take(s, len);
        if (s->start < s->len) *c = (unsigned char)s->buf[s->start];
        if (s->start < s->len || s->eof) break;
        code = source_read(s);
    }
    return code;
}

static int source_skip_byte_order_mark(source *s)
{
    int code = FINE;
    while (code == FINE && s->len < 3 && !s->eof) code = source_read(s);
    if (code != FINE || s->len < 3 || memcmp(s->buf, "\xef\xbb\xbf", 3) != 0) return code;
    s->start = 3;
    s->line_base = 3;
    return FINE;
}

typedef struct splitter {
    unsigned depth;
    bool string, escape;
} splitter;

typedef enum split { SPLIT_MORE, SPLIT_BEFORE, SPLIT_BEHIND } split;

/* Does the value end before or behind this byte? */
static split splitter_step(splitter *p, char c)
{
    if (p->string) {
        bool end = c == '"' && !p->escape;
        p->escape = !p->escape && c == '\\';
        p->string = !end;
        return end && p->depth == 0 ? SPLIT_BEHIND : SPLIT_MORE;
    }
    switch (c) {
    case '"': p->string = true; return SPLIT_MORE;
    case '{':
    case '[': p->depth++; return SPLIT_MORE;
    case '}':
    case ']':
        if (p->depth == 0) return SPLIT_BEFORE;
        return --p->depth == 0 ? SPLIT_BEHIND : SPLIT_MORE;
    default:
        return p->depth == 0 && (c == ',' || is_space(c)) ? SPLIT_BEFORE : SPLIT_MORE;
    }
}

/* Is this beginning of a value lost for JSON? It may be cut in a string, a number, an
 * escape, so only what is wrong well before the cut counts. */
static bool hopeless(const source *s, size_t len)
{
    ms_error err;
    ms_str text = ms_str_n(s->buf + s->start, len);
    return ms_json_check(text, NULL, NULL, &err) != MS_OK && err.offset < len - 64;
}

/* What was found and expected; the place it begins with is one in the value. */
static const char *reason_of(const ms_error *err)
{
    const char *place = err->line > 0 ? strstr(err->message, "): ") : NULL;
    return place != NULL ? place + 3 : err->message;
}

/* The next value, from the start on; valid until the source moves. */
static int next_value(source *s, ms_str *value)
{
    splitter p = {0, false, false};
    ms_error err;
    size_t len = 0, look = BLOCK_SIZE;
    for (split found = SPLIT_MORE; found != SPLIT_BEHIND; len++) {
        int code = s->start + len == s->len ? source_read(s) : FINE;
        if (code != FINE) return code;
        if (s->start + len == s->len) break;
        if (len == look && hopeless(s, len)) break;
        if (len == look) look *= 2;
        if (len >= ELEMENT_MAX) return complain_at(s, 0, "a value of over 256 MiB", "");
        found = splitter_step(&p, s->buf[s->start + len]);
        if (found == SPLIT_BEFORE && len > 0) break;
    }
    ms_str text = ms_str_n(s->buf + s->start, len);
    if (ms_json_check(text, NULL, value, &err) == MS_OK) return FINE;
    size_t at = err.offset < len ? (size_t)err.offset : len;
    return complain_at(s, at, reason_of(&err), "");
}


/* ---- Messages in the input ------------------------------------------------------------
 * A value at the top level, or in an array there, is one of
 *
 *   a message        {"type": "task", ...} or {"role": "user", ...}
 *   a conversation   {"task_id": 3, "traj": [message, ...]}, or an array of messages
 *
 * Each message without a location gets that of its conversation: task_id, instance_id or
 * the name of the file, with a running number where that was used before. All messages
 * that stand alone, a line each, are one conversation. */

/* Where messages go. `at` is where they stand, for complain_at; `talk` is another number
 * for each conversation. */
typedef struct sink {
    int (*take)(void *ctx, const source *s, size_t at, uint64_t talk,
                const ms_envelopes *list);
    void *ctx;
    bool guess_agent;         /* calls and results of chats get an agent key */
    bool needs_location;
} sink;

typedef struct reader {
    source source;
    const options *options;
    const sink *sink;
    ms_arena arena;           /* of the message at hand */
    tally names;              /* locations given so far */
    ms_str stem;              /* what a conversation without a name is called */
    uint64_t messages, talks; /* so far */
} reader;

typedef struct conversation {
    uint64_t number;
    ms_str name;              /* its own; absent: the reader's stem */
    ms_str location;          /* absent until a message needs it */
} conversation;

/* "dir/trace.jsonl" -> "trace". */
static ms_str stem_of(const char *path)
{
    if (strcmp(path, "-") == 0) return MS_STR("stdin");
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    ms_str stem = ms_str_of(name);
    if (dot != NULL && dot > name) stem.len = (size_t)(dot - name);
    return stem.len > 0 && ms_utf8_check(stem, NULL) ? stem : MS_STR("input");
}

/* Gives the conversation its location: "3", and when that is taken "3.2", "3.3", ... */
static int name_conversation(reader *r, conversation *talk)
{
    ms_str name = talk->name.ptr != NULL ? talk->name : r->stem;
    tally_row *row = tally_row_of(&r->names, name);
    char *text = ms_arena_alloc(&r->names.arena, name.len + 24);
    if (row == NULL || text == NULL) return no_memory();
    memcpy(text, name.ptr, name.len);
    talk->location = ms_str_n(text, name.len);
    uint64_t number = ++row->count;
    while (number > 1) {
        int n = snprintf(text + name.len, 24, ".%" PRIu64, number);
        talk->location.len = name.len + (size_t)n;
        row = tally_row_of(&r->names, talk->location);
        if (row == NULL) return no_memory();
        if (row->count++ == 0) break;
        number++;
    }
    return FINE;
}

#define CHAT_TRACES (MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) | MS_BIT(MS_T_ERROR))
#define TRACES (MS_TYPES_AGENT_WIDE & ~MS_TYPES_GLOBAL)
#define FRAMEWORK_TYPES (MS_TYPES_AGENT_WIDE | MS_TYPES_CONVERSATION | MS_TYPES_GLOBAL)

/* Sets what the input lacks. */
static int complete(reader *r, bool chat, conversation *talk, ms_envelope *m)
{
    const char *agent = r->options->agent;
    if (m->agent_key.ptr == NULL && agent != NULL) {
        if ((MS_BIT(m->type) & TRACES) != 0) m->agent_key = ms_str_of(agent);
    } else if (m->agent_key.ptr == NULL && chat && r->sink->guess_agent) {
        if ((MS_BIT(m->type) & CHAT_TRACES) != 0) m->agent_key = MS_STR("assistant");
    }
    if (m->location.ptr != NULL || !r->sink->needs_location) return FINE;
    int code = talk->location.ptr == NULL ? name_conversation(r, talk) : FINE;
    m->location = talk->location;
    return code;
}

static conversation next_conversation(reader *r)
{
    conversation talk;
    memset(&talk, 0, sizeof talk);
    talk.number = r->talks++;
    return talk;
}

static size_t offset_of(const reader *r, ms_str part)
{
    return (size_t)(part.ptr - (r->source.buf + r->source.start));
}

static int take_message(reader *r, ms_str object, const ms_dialect *dialect,
                        conversation *talk)
{
    ms_error err;
    ms_envelopes list;
    ms_read_opts opts = {0};
    size_t at = offset_of(r, object);
    bool chat = strcmp(ms_dialect_name(dialect), "openai") == 0;
    opts.lenient = GIVEN(r->options, LENIENT);
    ms_arena_reset(&r->arena);
    if (ms_read(dialect, object, &opts, &r->arena, &list, &err) != MS_OK) {
        if (err.offset < object.len) at += (size_t)err.offset;
        const char *what = chat ? "openai message: " : "framework message: ";
        return complain_at(&r->source, at, what, err.message);
    }
    for (size_t i = 0; i < list.count; i++) {
        int code = complete(r, chat, talk, &list.items[i]);
        if (code != FINE) return code;
    }
    r->messages += list.count;
    return r->sink->take(r->sink->ctx, &r->source, at, talk->number, &list);
}

/* The string in a member of an object, or absent. */
static ms_str string_member(reader *r, ms_str object, const char *name)
{
    ms_str value, text = {NULL, 0};
    if (ms_json_member(object, ms_str_of(name), &value)) {
        ms_json_string(value, &r->arena, &text);
    }
    return text;
}

/* The dialect of a message object; NULL when it shows none. */
static const ms_dialect *dialect_of(reader *r, ms_str object)
{
    ms_arena_reset(&r->arena);
    ms_type type = ms_type_of_word(string_member(r, object, "type"));
    if ((MS_BIT(type) & FRAMEWORK_TYPES) != 0) {
        return ms_dialect_find(MS_STR("framework"));
    }
    if (string_member(r, object, "role").ptr == NULL) return NULL;
    return ms_dialect_find(MS_STR("openai"));
}

static bool is_object(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_OBJECT;
}

/* Does the object carry a list of messages? Of several the first in this order counts; an
 * empty list is one when there is no other. */
static bool find_list(reader *r, ms_str object, ms_str *list)
{
    static const char *const names[] = {"messages", "traj", "history", "trajectory"};
    ms_str value, first;
    list->ptr = NULL;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!ms_json_member(object, ms_str_of(names[i]), &value)) continue;
        if (ms_json_kind_of(value) != MS_JSON_ARRAY) continue;
        bool empty = !ms_json_element(value, 0, &first);
        if (empty && list->ptr == NULL) *list = value;
        if (empty || !is_object(first) || dialect_of(r, first) == NULL) continue;
        *list = value;
        break;
    }
    return list->ptr != NULL;
}

/* A number as it is spelled, or the text of a string; else absent. */
static ms_str find_name(reader *r, ms_str object)
{
    static const char *const names[] = {"task_id", "instance_id"};
    ms_str value, name;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!ms_json_member(object, ms_str_of(names[i]), &value)) continue;
        if (ms_json_kind_of(value) == MS_JSON_NUMBER) return value;
        if (ms_json_string(value, &r->names.arena, &name) == MS_OK && name.len > 0) {
            return name;
        }
    }
    return ms_str_n(NULL, 0);
}

/* A message, or what should be one. */
static int take_element(reader *r, ms_str value, conversation *talk)
{
    size_t at = offset_of(r, value);
    const ms_dialect *dialect = r->options->from;
    if (!is_object(value)) return complain_at(&r->source, at, "no message object", "");
    if (dialect == NULL) dialect = dialect_of(r, value);
    if (dialect == NULL && string_member(r, value, "type").ptr != NULL) {
        dialect = ms_dialect_find(MS_STR("framework"));
    }
    if (dialect != NULL) return take_message(r, value, dialect, talk);
    return complain_at(&r->source, at, "this message shows no dialect: ",
                       "\"type\" (framework) or \"role\" (openai) was expected");
}

static int take_list(reader *r, ms_str list, conversation *talk)
{
    int code = FINE;
    ms_json_iter it = ms_json_iterate(list);
    while (code == FINE && ms_json_next(&it)) code = take_element(r, it.value, talk);
    return code;
}

/* A message of `talk`, or a conversation. */
static int take_value(reader *r, ms_str value, conversation *talk)
{
    conversation own = next_conversation(r);
    ms_str list;
    if (ms_json_kind_of(value) == MS_JSON_ARRAY) return take_list(r, value, &own);
    bool object = is_object(value) && dialect_of(r, value) == NULL;
    if (!object || !find_list(r, value, &list)) return take_element(r, value, talk);
    if (r->sink->needs_location) own.name = find_name(r, value);
    return take_list(r, list, &own);
}

static int read_value(reader *r, conversation *talk)
{
    ms_str value;
    int code = next_value(&r->source, &value);
    if (code == FINE) code = take_value(r, value, talk);
    if (code == FINE) source_take(&r->source, offset_of(r, value) + value.len);
    return code;
}

/* An array at the top level, element by element: its messages are one conversation. */
static int read_array(reader *r)
{
    source *s = &r->source;
    conversation talk = next_conversation(r);
    int c, code;
    source_take(s, 1);
    if ((code = source_peek(s, &c)) != FINE) return code;
    while (c != ']') {
        if ((code = read_value(r, &talk)) != FINE) return code;
        if ((code = source_peek(s, &c)) != FINE) return code;
        if (c == ']') break;
        if (c != ',') {
            return complain_at(s, 0, c < 0 ? "the file ends in an array: " : "",
                               "',' or ']' was expected");
        }
        source_take(s, 1);
        if ((code = source_peek(s, &c)) != FINE) return code;
        if (c == ']') return complain_at(s, 0, "a value was expected behind ','", "");
    }
    source_take(s, 1);
    return FINE;
}

static int read_values(reader *r)
{
    conversation lines = next_conversation(r);
    int c, code = source_skip_byte_order_mark(&r->source);
    while (code == FINE) {
        code = source_peek(&r->source, &c);
        if (code != FINE || c < 0) break;
        code = c == '[' ? read_array(r) : read_value(r, &lines);
    }
    return code;
}

/* Reads all of a file into a sink. */
static int read_input(const options *o, const sink *to)
{
    reader r;
    memset(&r, 0, sizeof r);
    r.options = o;
    r.sink = to;
    r.stem = o->location != NULL ? ms_str_of(o->location) : stem_of(o->input);
    int code = source_open(&r.source, o->input);
    if (code != FINE) return code;
    code = read_values(&r);
    source_close(&r.source);
    if (code == FINE && r.messages == 0) complain("%s: no messages in it", r.source.name);
    ms_arena_deinit(&r.arena);
    tally_free(&r.names);
    return code;
}


/* ---- Output ------------------------------------------------------------------------ */

typedef struct output {
    FILE *file;
    int error;                /* errno of the first write that failed */
} output;

static ms_result emit(void *ctx, const char *bytes, size_t len)
{
    output *out = ctx;
    if (out->error == 0 && fwrite(bytes, 1, len, out->file) == len) return MS_OK;
    if (out->error == 0) out->error = errno != 0 ? errno : EIO;
    return MS_E_IO;
}

static void emit_text(output *out, const char *text)
{
    emit(out, text, strlen(text));
}

static void emit_pad(output *out, unsigned used, unsigned width)
{
    for (; used < width; used++) emit(out, " ", 1);
}

/* The exit code when all is written; a reader that went away is no news. */
static int output_end(output *out, int code)
{
    if (out->error == 0 && fflush(out->file) != 0) out->error = errno != 0 ? errno : EIO;
    if (out->error == 0) return code;
    if (out->error != EPIPE) complain("cannot write: %s", strerror(out->error));
    return FAILED;
}

/* What a view or a history shows; may be opened several times. */
typedef struct listing {
    ms_store *store;
    const ms_query *query;    /* used when memory is NULL */
    const ms_memory *memory;
    ms_arena *arena;
} listing;

static int listing_open(const listing *l, ms_cursor *it)
{
    ms_error err;
    ms_result result = l->memory != NULL ? ms_get_history(l->memory, it, &err)
                                         : ms_query_open(l->store, l->query, it, &err);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

static int listing_close(ms_cursor *it)
{
    ms_error err;
    ms_result result = ms_cursor_close(it, &err);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

static int print_json(const options *o, const listing *l, output *out)
{
    ms_error err;
    ms_writer w;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION)};
    ms_cursor it;
    const ms_msg *msg;
    ms_result result = MS_OK;
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    ms_writer_init(&w, o->to, &opts, l->arena, emit, out);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        result = ms_writer_put_msg(&w, msg, &err);
    }
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK && out->error == 0) code = complain_of("writing", result, &err);
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

/* The columns of a table, in their order, with their widths. */
typedef struct table {
    unsigned seq, time, location, agent, type, body; /* location 0: all the same */
    bool colour;
} table;

enum { CELL_BYTES = 8192, NAME_LIMIT = 24 };

static void widen(unsigned *column, ms_str text)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, NAME_LIMIT);
    cell_put(&c, text);
    if (c.width > *column) *column = c.width;
}

static ms_str seq_text(const ms_msg *msg, char out[TIME_MAX])
{
    return ms_str_n(out, (size_t)snprintf(out, TIME_MAX, "%" PRIu64, ms_seq(msg)));
}

static ms_str when_text(const ms_msg *msg, char out[TIME_MAX])
{
    double seconds;
    return ms_time(msg, &seconds) ? ms_str_of(time_text(seconds, out)) : MS_STR("-");
}

/* The terminal's columns, or 100. */
static unsigned line_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
    return size.ws_col < 1000 ? size.ws_col : 1000;
}

/* Looks at all messages once, to align the columns. */
static int table_measure(const listing *l, table *t)
{
    ms_cursor it;
    const ms_msg *msg, *first = NULL;
    bool several = false;
    char text[TIME_MAX];
    const char *no_colour = getenv("NO_COLOR");
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        widen(&t->seq, seq_text(msg, text));
        widen(&t->time, when_text(msg, text));
        if (first == NULL) first = msg;
        several = several || !ms_str_equal(ms_location(first), ms_location(msg));
        widen(&t->location, ms_location(msg));
        widen(&t->agent, ms_agent_key(msg));
        widen(&t->type, ms_type_name(msg));
    }
    if (t->agent == 0) t->agent = 1;
    if (!several) t->location = 0;
    unsigned line = line_width(), used = t->seq + t->time + t->agent + t->type + 8;
    if (several) used += t->location + 2;
    t->body = line > used + 20 ? line - used : 20;
    t->colour = isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0');
    return listing_close(&it);
}

/* A column that is followed by another: padded, and two blanks. */
static void put_column(output *out, ms_str text, unsigned width, const char *colour)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, width);
    cell_put(&c, text);
    if (c.len == 0) cell_put(&c, MS_STR("-"));
    if (colour != NULL) emit_text(out, colour);
    emit(out, c.buf, c.len);
    if (colour != NULL) emit_text(out, "\033[0m");
    emit_pad(out, c.width, width + 2);
}

/* "tool(args)", "-> worker: task", else the content. */
static void put_body(cell *c, const ms_msg *msg)
{
    ms_type type = ms_type_of(msg);
    if (type == MS_T_ACTION) {
        cell_put(c, ms_get(msg, MS_F_TOOL).text);
        cell_put(c, MS_STR("("));
        cell_put(c, ms_get(msg, MS_F_ARGS).text);
        cell_put(c, MS_STR(")"));
    } else if (type == MS_T_DELEGATION) {
        cell_put(c, MS_STR("-> "));
        cell_put(c, ms_get(msg, MS_F_WORKER).text);
        cell_put(c, MS_STR(": "));
        cell_put(c, ms_get(msg, MS_F_TASK).text);
    } else {
        cell_put(c, ms_content(msg).text);
    }
}

static const char *type_colour(const table *t, const ms_msg *msg)
{
    static const struct {
        ms_type_set types;
        const char *colour;
    } colours[] = {
        {MS_BIT(MS_T_ERROR), "\033[31m"},
        {MS_TYPES_CONVERSATION, "\033[1m"},
        {MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_DELEGATION), "\033[36m"},
        {MS_TYPES_GLOBAL, "\033[35m"},
        {MS_BIT(MS_T_TASK) | MS_BIT(MS_T_FINAL), "\033[32m"},
    };
    for (size_t i = 0; t->colour && i < COUNT_OF(colours); i++) {
        if ((MS_BIT(ms_type_of(msg)) & colours[i].types) != 0) return colours[i].colour;
    }
    return NULL;
}

static void print_row(const table *t, const ms_msg *msg, output *out)
{
    char text[TIME_MAX], buf[CELL_BYTES];
    ms_str seq = seq_text(msg, text);
    emit_pad(out, (unsigned)seq.len, t->seq);
    put_column(out, seq, (unsigned)seq.len, NULL);
    put_column(out, when_text(msg, text), t->time, t->colour ? "\033[2m" : NULL);
    if (t->location > 0) put_column(out, ms_location(msg), t->location, NULL);
    put_column(out, ms_agent_key(msg), t->agent, NULL);
    put_column(out, ms_type_name(msg), t->type, type_colour(t, msg));
    cell body = cell_over(buf, sizeof buf, t->body);
    put_body(&body, msg);
    emit(out, body.buf, body.len);
    emit(out, "\n", 1);
}

static int print_table(const listing *l, output *out)
{
    table t;
    ms_cursor it;
    const ms_msg *msg;
    memset(&t, 0, sizeof t);
    int code = table_measure(l, &t);
    if (code == FINE) code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out->error == 0 && (msg = ms_next(&it)) != NULL) print_row(&t, msg, out);
    return listing_close(&it);
}

static int print_listing(const options *o, const listing *l)
{
    output out = {stdout, 0};
    int code = o->to != NULL ? print_json(o, l, &out) : print_table(l, &out);
    return output_end(&out, code);
}


/* ---- msgstore convert -------------------------------------------------------------- */

typedef struct converter {
    output out;
    const options *options;
    ms_arena *arena;          /* of the writer */
    ms_writer writer;
    uint64_t talk;
} converter;

static void converter_begin(converter *c, uint64_t talk)
{
    const options *o = c->options;
    ms_writer_opts opts = {GIVEN(o, ARRAY), false, GIVEN(o, WITH_LOCATION)};
    c->talk = talk;
    ms_arena_reset(c->arena);
    ms_writer_init(&c->writer, o->to, &opts, c->arena, emit, &c->out);
}

static int converter_end(converter *c)
{
    ms_error err;
    ms_result result = ms_writer_finish(&c->writer, &err);
    if (result == MS_OK) return FINE;
    return c->out.error != 0 ? FAILED : complain_of("writing", result, &err);
}

/* Open calls of one conversation are none of the next: each has a writer of its own, but
 * for an array, which is one. */
static int convert_take(void *ctx, const source *s, size_t at, uint64_t talk,
                        const ms_envelopes *list)
{
    converter *c = ctx;
    ms_error err;
    if (talk != c->talk && !GIVEN(c->options, ARRAY)) {
        if (converter_end(c) != FINE) return FAILED;
        converter_begin(c, talk);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (ms_writer_put(&c->writer, &list->items[i], &err) == MS_OK) continue;
        if (c->out.error != 0) return FAILED;
        return complain_at(s, at, "writing this message: ", err.message);
    }
    return FINE;
}

/* An array is printed whole or not at all: until its end is known it is in a file. */
static int print_file(FILE *file)
{
    char block[CELL_BYTES];
    output out = {stdout, 0};
    size_t n;
    rewind(file);
    while ((n = fread(block, 1, sizeof block, file)) > 0) emit(&out, block, n);
    if (ferror(file)) complain("cannot read back the array");
    return output_end(&out, ferror(file) ? FAILED : FINE);
}

static int run_convert(const options *o, ms_store *store, ms_arena *arena)
{
    converter c;
    bool array = GIVEN(o, ARRAY);
    sink to = {convert_take, &c, false, GIVEN(o, WITH_LOCATION)};
    (void)store;
    memset(&c, 0, sizeof c);
    c.options = o;
    c.arena = arena;
    c.out.file = array ? tmpfile() : stdout;
    if (c.out.file == NULL) {
        complain("no temporary file for --array: %s", strerror(errno));
        return FAILED;
    }
    converter_begin(&c, 0);
    int code = read_input(o, &to), ended = converter_end(&c);
    code = output_end(&c.out, code != FINE ? code : ended);
    if (array && code == FINE) code = print_file(c.out.file);
    if (array) fclose(c.out.file);
    return code;
}


/* ---- Stores: the one place where one is opened, and choosing what to look at ------- */

static int store_take(void *ctx, const source *s, size_t at, uint64_t talk,
                      const ms_envelopes *list)
{
    ms_error err;
    ms_append_opts opts = {0};
    (void)talk;
    ms_result result = ms_append_batch(ctx, list->items, list->count, &opts, &err);
    if (result == MS_OK) return FINE;
    complain_at(s, at, "storing this message: ", err.message);
    return exit_code(result);
}

/* Opens what the argument STORE names: a file of messages becomes a store in memory. The
 * caller closes *store whatever is returned. */
static int open_store(const options *o, ms_store **store)
{
    ms_error err;
    ms_mem_desc desc = {0};
    desc.keep_unset_times = true;
    ms_result result = ms_mem_open(store, &desc, &err);
    if (result != MS_OK) return complain_of("opening a store", result, &err);
    sink to = {store_take, *store, true, true};
    return read_input(o, &to);
}

/* Tells which locations, or agents, there are. */
static void hint(const ms_listing *list, bool agents)
{
    char text[1024] = "";
    size_t len = 0, shown = 0;
    ms_str last = {NULL, 0};
    for (size_t i = 0; i < list->count && shown < 10; i++) {
        ms_str item = agents ? list->items[i].agent_key : list->items[i].location;
        if (item.len == 0 || ms_str_equal(item, last)) continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s",
                                shown > 0 ? ", " : "", item.len < 80 ? (int)item.len : 80,
                                item.ptr);
        last = item;
        shown++;
    }
    const char *what = agents ? "agents" : "locations";
    if (len > 0) complain("there are %s: %s%s", what, text, shown < 10 ? "" : ", ...");
}

/* Lists the locations, or the agents of one. A name that is not among them (a typing
 * error, usually) is NOT_FOUND; NULL: any will do. */
static int look_up(ms_store *store, bool agents, ms_str location, const char *name,
                   ms_arena *arena, ms_listing *list)
{
    ms_error err;
    ms_list_query query = {0};
    query.agents = agents;
    query.location = location;
    ms_result result = ms_list(store, &query, arena, list, &err);
    if (result != MS_OK) return complain_of("listing the store", result, &err);
    if (name == NULL) return FINE;
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = agents ? list->items[i].agent_key : list->items[i].location;
        if (ms_str_equal(item, ms_str_of(name))) return FINE;
    }
    complain("no messages of %s %s", agents ? "agent" : "location", name);
    hint(list, agents);
    return NOT_FOUND;
}

/* Sets the location to show: that of the options, which must be there; where one is
 * needed, the only one; else absent, for all. An agent may be new: then it is said. */
static int choose_location(const options *o, ms_store *store, bool needed,
                           ms_arena *arena, ms_str *location)
{
    ms_listing list;
    int code = look_up(store, false, ms_str_n(NULL, 0), o->location, arena, &list);
    if (code != FINE) return code;
    *location = ms_str_of(o->location);
    if (o->location == NULL && needed && list.count == 0) return NOT_FOUND;
    if (o->location == NULL && needed && list.count > 1) {
        complain("--location is needed");
        hint(&list, false);
        return USAGE;
    }
    if (o->location == NULL && needed) *location = list.items[0].location;
    if (o->agent != NULL) look_up(store, true, *location, o->agent, arena, &list);
    return FINE;
}


/* ---- msgstore view, msgstore history ----------------------------------------------- */

static int run_view(const options *o, ms_store *store, ms_arena *arena)
{
    ms_query q = {0};
    listing l = {store, &q, NULL, arena};
    int code = choose_location(o, store, false, arena, &q.location);
    if (code != FINE) return code;
    if (GIVEN(o, CONVERSATION)) q.views |= MS_VIEW_CONVERSATION;
    if (GIVEN(o, AGENT)) q.views |= MS_VIEW_AGENT;
    if (GIVEN(o, TEAM)) q.views |= MS_VIEW_TEAM;
    if (GIVEN(o, GLOBAL)) q.views |= MS_VIEW_GLOBAL;
    if (GIVEN(o, TIMELINE)) q.views |= MS_VIEW_TIMELINE;
    q.agent_key = ms_str_of(o->agent);
    q.agent_keys = o->team;
    q.n_agent_keys = o->n_team;
    q.turn_id = ms_str_of(o->turn);
    q.has_since = GIVEN(o, SINCE);
    q.since = o->since;
    q.has_until = GIVEN(o, UNTIL);
    q.until = o->until;
    q.limit = o->limit;
    q.oldest = GIVEN(o, OLDEST);
    q.arena = arena;
    return print_listing(o, &l);
}

static int run_history(const options *o, ms_store *store, ms_arena *arena)
{
    ms_memory m;
    ms_str location;
    listing l = {store, NULL, &m, arena};
    int code = choose_location(o, store, true, arena, &location);
    if (code != FINE) return code;
    ms_memory_init(&m, store, location, ms_str_of(o->agent));
    m.subordinates = o->team;
    m.n_subordinates = o->n_team;
    m.timeline = GIVEN(o, TIMELINE);
    m.conversation_limit = m.agent_limit = m.team_limit = m.global_limit = o->limit;
    m.limit = o->limit;
    m.scope.kind = o->scope;
    m.scope.turns = o->limit;
    m.scope.has_phase = GIVEN(o, PHASE);
    m.scope.phase = o->phase;
    m.arena = arena;
    return print_listing(o, &l);
}


/* ---- msgstore info ----------------------------------------------------------------- */

enum { INFO_ROWS = 20 };

typedef struct census {
    tally locations, agents, types;
    uint64_t timed;           /* messages with a time */
    double first, last;
} census;

static bool count_in(tally *t, ms_str text, const ms_msg *msg)
{
    tally_row *row = tally_row_of(t, text);
    if (row == NULL) return false;
    row->count++;
    row->bytes += ms_size(msg);
    return true;
}

static int count_messages(ms_store *store, census *c)
{
    ms_query all = {0};
    listing l = {store, &all, NULL, NULL};
    ms_cursor it;
    const ms_msg *msg;
    double seconds;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        if (!count_in(&c->locations, ms_location(msg), msg) ||
            !count_in(&c->agents, ms_agent_key(msg), msg) ||
            !count_in(&c->types, ms_type_name(msg), msg)) {
            return no_memory();
        }
        if (!ms_time(msg, &seconds)) continue;
        if (c->timed == 0 || seconds < c->first) c->first = seconds;
        if (c->timed == 0 || seconds > c->last) c->last = seconds;
        c->timed++;
    }
    return listing_close(&it);
}

/* Most messages first, then by name. */
static int by_count(const void *a, const void *b)
{
    const tally_row *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    size_t len = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = len > 0 ? memcmp(x->text.ptr, y->text.ptr, len) : 0;
    if (order != 0) return order;
    return (x->text.len > y->text.len) - (x->text.len < y->text.len);
}

/* The rows are sorted in place: no look-ups afterwards. Unused ones count 0. */
static void print_tally(output *out, const char *title, tally *t, bool all)
{
    char text[80], buf[CELL_BYTES];
    size_t n = all || t->used < INFO_ROWS ? t->used : INFO_ROWS;
    snprintf(text, sizeof text, "%-10s %zu\n", title, t->used);
    emit_text(out, text);
    if (t->used > 0) qsort(t->rows, t->cap, sizeof *t->rows, by_count);
    for (size_t i = 0; i < n; i++) {
        const tally_row *row = &t->rows[i];
        cell name = cell_over(buf, sizeof buf, 60);
        cell_put(&name, row->text.len > 0 ? row->text : MS_STR("-"));
        snprintf(text, sizeof text, "%12" PRIu64 " %12" PRIu64 " bytes  ", row->count,
                 row->bytes);
        emit_text(out, text);
        emit(out, name.buf, name.len);
        emit(out, "\n", 1);
    }
    snprintf(text, sizeof text, "             ... and %zu more\n", t->used - n);
    if (n < t->used) emit_text(out, text);
}

static int run_info(const options *o, ms_store *store, ms_arena *arena)
{
    char text[256] = "", first[TIME_MAX], last[TIME_MAX];
    output out = {stdout, 0};
    ms_stat stat;
    ms_error err;
    census c;
    (void)arena;
    memset(&c, 0, sizeof c);
    ms_result result = ms_store_stat(store, &stat, &err);
    if (result != MS_OK) return complain_of("counting", result, &err);
    int code = count_messages(store, &c);
    snprintf(text, sizeof text, "messages   %" PRIu64 ", %" PRIu64 " bytes and %" PRIu64
             " of index\n", stat.messages, stat.bytes, stat.index_bytes);
    emit_text(&out, text);
    snprintf(text, sizeof text, "times      %s to %s, %" PRIu64 " messages without\n",
             time_text(c.first, first), time_text(c.last, last), stat.messages - c.timed);
    emit_text(&out, c.timed > 0 ? text : "times      none\n");
    print_tally(&out, "locations", &c.locations, GIVEN(o, ALL));
    print_tally(&out, "agents", &c.agents, GIVEN(o, ALL));
    print_tally(&out, "types", &c.types, GIVEN(o, ALL));
    tally_free(&c.locations);
    tally_free(&c.agents);
    tally_free(&c.types);
    return output_end(&out, code);
}


/* ---- Options, help, main ----------------------------------------------------------- */

enum { O_FIRST = 256 }; /* getopt's value of the first option: none is a character */

static const struct option long_options[] = {
#define X(name, word, argument) {word, argument, NULL, O_FIRST + O_##name},
    OPTIONS(X)
#undef X
    {NULL, 0, NULL, 0},
};

typedef struct command {
    const char *name;
    int (*run)(const options *o, ms_store *store, ms_arena *arena);
    bool store;               /* the argument is a STORE, which run() gets opened */
    uint32_t takes, needs;    /* options */
    const char *help;
} command;

#define INPUT_OPTIONS                                                                    \
    (O_BIT(HELP) | O_BIT(LOCATION) | O_BIT(AGENT) | O_BIT(FROM) | O_BIT(LENIENT))
#define PRINT_OPTIONS (O_BIT(FORMAT) | O_BIT(WITH_LOCATION) | O_BIT(LIMIT))

#define INPUT_HELP                                                                       \
    "  --from FORMAT    the input's format; without it each message is looked at\n"      \
    "  --lenient        keep unknown types and odd members instead of refusing them\n"
#define PRINT_HELP                                                                       \
    "  --format F       table (the default), or a message format\n"                      \
    "  --with-location  with a message format: write location and agent_key, too\n"

/* clang-format off */
static const command commands[] = {
    {"convert", run_convert, false,
     INPUT_OPTIONS | O_BIT(TO) | O_BIT(ARRAY) | O_BIT(WITH_LOCATION), O_BIT(TO),
     "examples:\n"
     "  msgstore convert --from openai --to framework chat.jsonl\n"
     "  msgstore convert --to openai --array <trace.jsonl >messages.json\n"
     "\n"
     "usage: msgstore convert [OPTION...] --to FORMAT [FILE|-]\n"
     "Messages in, the same messages out in another format, in order, one a line.\n"
     "\n"
     "  --to FORMAT      the output's format\n"
     INPUT_HELP
     "  --array          one array instead of lines; all or nothing\n"
     "  --with-location  write the members location and agent_key, too\n"
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"},
    {"view", run_view, true,
     INPUT_OPTIONS | PRINT_OPTIONS | O_BIT(CONVERSATION) | O_BIT(TEAM) | O_BIT(GLOBAL) |
     O_BIT(TIMELINE) | O_BIT(TURN) | O_BIT(SINCE) | O_BIT(UNTIL) | O_BIT(OLDEST), 0,
     "examples:\n"
     "  msgstore view trace.jsonl -n 20\n"
     "  msgstore view trace.jsonl --location job_42 --agent worker --since 2026-03-02\n"
     "  msgstore view trace.jsonl --team worker,writer --format openai\n"
     "\n"
     "usage: msgstore view [OPTION...] STORE\n"
     "Shows messages: all, or the views that are named, together.\n"
     "\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did: task, action, observation, error, final,\n"
     "                   delegation; A is also the agent of those that have none\n"
     "  --team A,B       everything that these agents wrote\n"
     "  --global         broadcasts: global_observation, synthesis\n"
     "  --timeline       everything (the default)\n"
     "  --location L     only this location, and that of messages that have none\n"
     "  --turn T         only this turn\n"
     "  --since T        only from T on: seconds since 1970, 2026-03-02, or\n"
     "                   2026-03-02T09:30:00Z (UTC)\n"
     "  --until T        only before T\n"
     "  -n, --limit N    the newest N; with --oldest the oldest N\n"
     PRINT_HELP INPUT_HELP},
    {"history", run_history, true,
     INPUT_OPTIONS | PRINT_OPTIONS | O_BIT(TEAM) | O_BIT(TIMELINE) | O_BIT(SCOPE) |
     O_BIT(PHASE), O_BIT(AGENT),
     "examples:\n"
     "  msgstore history trace.jsonl --agent manager --team worker,writer\n"
     "  msgstore history trace.jsonl --agent worker --timeline --format openai\n"
     "\n"
     "usage: msgstore history [OPTION...] STORE --agent A\n"
     "Shows what an agent reads before its next step: the conversation, its own trace,\n"
     "its team's, the broadcasts.\n"
     "\n"
     "  --agent A        the agent, and that of traces that have none\n"
     "  --team A,B       the agents under it\n"
     "  --location L     the location; needed when there are several\n"
     "  --timeline       in one order instead of block after block\n"
     "  --scope S        less: orchestrator (the end of the conversation), manager (the\n"
     "                   synthesis of the phase before), worker (since its last task)\n"
     "  --phase N        for --scope manager: the phase that runs now\n"
     "  -n, --limit N    the newest N of each block; with --timeline, of all\n"
     PRINT_HELP INPUT_HELP},
    {"info", run_info, true, INPUT_OPTIONS | O_BIT(ALL), 0,
     "examples:\n"
     "  msgstore info trace.jsonl\n"
     "  msgstore info --all trace.jsonl\n"
     "\n"
     "usage: msgstore info [OPTION...] STORE\n"
     "Counts messages by location, agent and type, most first.\n"
     "\n"
     "  --all            all rows instead of the first 20\n"
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
};

static const char main_help[] =
    "examples:\n"
    "  msgstore history trace.jsonl --agent worker\n"
    "  msgstore convert --from openai --to framework chat.jsonl\n"
    "\n"
    "usage: msgstore COMMAND [OPTION...] [FILE]\n"
    "\n"
    "  convert   messages in, messages out, in another format\n"
    "  view      messages of a store: of an agent, a team, a turn, a time\n"
    "  history   what an agent reads before its next step\n"
    "  info      how many messages, of whom, of which types\n"
    "\n"
    "msgstore COMMAND -h tells more, msgstore --version the version.\n"
    "\n"
    "A STORE is a file of messages (- is standard input), JSON or JSON Lines: messages,\n"
    "lists of messages, or objects that carry such a list under messages, traj, history\n"
    "or trajectory.\n";
/* clang-format on */

static int print_help(const char *help, bool exits)
{
    output out = {stdout, 0};
    char text[128];
    const ms_dialect *d;
    emit_text(&out, help);
    emit_text(&out, "\nmessage formats:");
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        emit_text(&out, " ");
        emit_text(&out, ms_dialect_name(d));
    }
    emit_text(&out, "\n");
    for (size_t i = 0; exits && i < COUNT_OF(exit_texts); i++) {
        snprintf(text, sizeof text, "exit code %zu: %s\n", i, exit_texts[i]);
        emit_text(&out, text);
    }
    return output_end(&out, FINE);
}

static int bad_usage(const command *c, const char *what, const char *word)
{
    const char *name = c != NULL ? c->name : "", *blank = c != NULL ? " " : "";
    complain("%s%s%s%s", name, blank, what, word);
    fprintf(stderr, "msgstore %s%s-h tells more\n", name, blank);
    return USAGE;
}

/* "A,B" becomes a list. */
static bool set_team(options *o, const char *text)
{
    free(o->team);
    o->team = calloc(strlen(text) + 1, sizeof *o->team);
    o->n_team = 0;
    for (; o->team != NULL; text++) {
        size_t len = strcspn(text, ",");
        if (len == 0) return false;
        o->team[o->n_team++] = ms_str_n(text, len);
        text += len;
        if (*text == '\0') return true;
    }
    return false;
}

static bool set_scope(options *o, const char *text)
{
    static const struct {
        const char *word;
        ms_scope_kind kind;
    } scopes[] = {
        {"orchestrator", MS_SCOPE_ORCHESTRATOR},
        {"manager", MS_SCOPE_MANAGER},
        {"worker", MS_SCOPE_WORKER},
    };
    o->scope = MS_SCOPE_ALL;
    for (size_t i = 0; i < COUNT_OF(scopes); i++) {
        if (strcmp(scopes[i].word, text) == 0) o->scope = scopes[i].kind;
    }
    return o->scope != MS_SCOPE_ALL;
}

static bool set_dialect(const ms_dialect **dialect, const char *text)
{
    *dialect = ms_dialect_find(ms_str_of(text));
    return *dialect != NULL;
}

static bool set_name(const char **name, const char *text)
{
    *name = text;
    return *text != '\0';
}

static bool set_count(size_t *count, const char *text)
{
    uint64_t value = 0;
    bool good = ms_json_u64(ms_str_of(text), &value) == MS_OK && value <= SIZE_MAX;
    *count = (size_t)value;
    return good;
}

/* What was expected when the argument does not fit, else NULL. */
static const char *set_option(options *o, int id, const char *text)
{
    static const char format[] = "a message format", number[] = "a number";
    static const char name[] = "a name", when[] = "a number or 2026-03-02T09:30:00Z";
    o->given |= (uint32_t)1 << id;
    switch (id) {
    case O_FROM: return set_dialect(&o->from, text) ? NULL : format;
    case O_TO: return set_dialect(&o->to, text) ? NULL : format;
    case O_FORMAT:
        if (set_dialect(&o->to, text) || strcmp(text, "table") == 0) return NULL;
        return "table or a message format";
    case O_TEAM: return set_team(o, text) ? NULL : "agents with commas between them";
    case O_SCOPE: return set_scope(o, text) ? NULL : "orchestrator, manager or worker";
    case O_LIMIT: return set_count(&o->limit, text) ? NULL : number;
    case O_PHASE: return ms_json_i64(ms_str_of(text), &o->phase) == MS_OK ? NULL : number;
    case O_SINCE: return parse_time(text, &o->since) ? NULL : when;
    case O_UNTIL: return parse_time(text, &o->until) ? NULL : when;
    case O_LOCATION: return set_name(&o->location, text) ? NULL : name;
    case O_AGENT: return set_name(&o->agent, text) ? NULL : name;
    case O_TURN: return set_name(&o->turn, text) ? NULL : name;
    default: return NULL; /* it is enough that it is given */
    }
}

static int parse_options(const command *c, int argc, char **argv, options *o)
{
    char text[128];
    for (int got; (got = getopt_long(argc, argv, ":hn:", long_options, NULL)) != -1;) {
        if (got == ':') return bad_usage(c, "needs an argument for ", argv[optind - 1]);
        if (got == '?') return bad_usage(c, "does not understand ", argv[optind - 1]);
        int id = got == 'h' ? O_HELP : got == 'n' ? O_LIMIT : got - O_FIRST;
        const char *word = long_options[id].name;
        if ((c->takes >> id & 1) == 0) return bad_usage(c, "takes no option --", word);
        const char *expected = set_option(o, id, optarg);
        if (expected == NULL) continue;
        snprintf(text, sizeof text, "--%s expects %s, not ", word, expected);
        return bad_usage(c, text, optarg);
    }
    if (GIVEN(o, HELP)) return FINE;
    for (int id = 0; long_options[id].name != NULL; id++) {
        if (((c->needs & ~o->given) >> id & 1) == 0) continue;
        return bad_usage(c, "needs the option --", long_options[id].name);
    }
    o->input = optind < argc ? argv[optind] : "-";
    if (c->store && optind == argc) return bad_usage(c, "needs a STORE", "");
    if (optind + 1 < argc) return bad_usage(c, "takes one file, not ", argv[optind + 1]);
    return FINE;
}

static int run_command(const command *c, int argc, char **argv)
{
    options o = {0};
    ms_store *store = NULL;
    ms_arena arena = {0};
    int code = parse_options(c, argc, argv, &o);
    if (code == FINE && GIVEN(&o, HELP)) {
        code = print_help(c->help, false);
    } else if (code == FINE) {
        if (c->store) code = open_store(&o, &store);
        if (code == FINE) code = c->run(&o, store, &arena);
        ms_close(store);
    }
    ms_arena_deinit(&arena);
    free(o.team);
    return code;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a write that fails */
    opterr = 0;
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(commands[i].name, word) != 0) continue;
        return run_command(&commands[i], argc - 1, argv + 1);
    }
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        return print_help(main_help, true);
    }
    if (strcmp(word, "--version") == 0) {
        output out = {stdout, 0};
        emit_text(&out, "msgstore " MSGSTORE_VERSION "\n");
        return output_end(&out, FINE);
    }
    return argc > 1 ? bad_usage(NULL, "no such command: ", word)
                    : bad_usage(NULL, "a command is needed", "");
}
