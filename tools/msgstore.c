/* msgstore - keeps, converts, shows and counts messages of agent programs.
 *
 *     msgstore convert --from openai --to framework chat.jsonl
 *     msgstore history trace.log --format anthropic -n 40
 *     msgstore check --as anthropic request.json
 *     msgstore import trace.log trace.jsonl
 *     msgstore view trace.log --agent worker
 *     msgstore history trace.log --agent manager --team worker,writer
 *     msgstore follow trace.log
 *     msgstore rewind trace.log 120
 *     msgstore diff run1.log run2.log
 *
 * A program on the public interface of msgstore.h alone. From the top: exit codes, text
 * for terminals, numbers and times, a counting table, options, the input (a splitter that
 * never holds a file; what a value is, and in which format; getting over what is
 * damaged), the output, stores and what is damaged in them, the commands, help and main.
 * Transcripts of other programs are in transcripts.h, the rules of providers in lint.h;
 * raw.h, search.h, diff.h, usage.h and changes.h go on with this file where it takes them
 * in. A function that returns int returns an exit code, and whoever finds that it is not
 * 0 says why. */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "lint.h"
#include "transcripts.h"

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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])


/* ---- Exit codes -------------------------------------------------------------------- */

enum { FINE, FAILED, USAGE, DAMAGED, NOT_FOUND, CONFLICT, BUSY };

/* No exit code: what is at hand is bad and noted as such, the next may be good. */
enum { SKIPPED = -1 };

static const char *const exit_texts[] = {
    "fine", "failed: bad input, no memory, cannot read or write", "usage",
    "stored bytes are damaged (the rest was used), or foreign",
    "no such file or location",
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
    {MS_E_HIDDEN, CONFLICT},
    {MS_E_BUSY, BUSY},
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

/* Says what a library call returned; what is NULL where the message tells it itself. */
static int complain_of(const char *what, ms_result result, const ms_error *err)
{
    complain("%s%s%s", what != NULL ? what : "", what != NULL ? ": " : "", err->message);
    return exit_code(result);
}

static int no_memory(void)
{
    complain("no memory");
    return FAILED;
}


/* ---- Numbers and times ------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t *out)
{
    return ms_json_u64(ms_str_of(text), out) == MS_OK;
}

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

/* Seconds of a clock that only goes forward. */
static double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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

static uint64_t hash_text(ms_str text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * 1099511628211u;
    }
    return hash;
}

static tally_row *tally_slot(const tally *t, ms_str text)
{
    uint64_t hash = hash_text(text);
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

static bool copy_text(ms_arena *arena, ms_str text, ms_str *out)
{
    char *copy = ms_arena_alloc(arena, text.len);
    if (copy != NULL && text.len > 0) memcpy(copy, text.ptr, text.len);
    *out = ms_str_n(copy, text.len);
    return copy != NULL;
}

/* The row of a text, a new one with zeroes if need be, until the next call; NULL: no
 * memory. */
static tally_row *tally_row_of(tally *t, ms_str text)
{
    if (t->used * 2 >= t->cap && !tally_grow(t)) return NULL;
    if (text.ptr == NULL) text = MS_STR("");
    tally_row *row = tally_slot(t, text);
    if (row->text.ptr != NULL) return row;
    if (!copy_text(&t->arena, text, &row->text)) return NULL;
    t->used++;
    return row;
}

static void tally_free(tally *t)
{
    free(t->rows);
    ms_arena_deinit(&t->arena);
}


/* ---- Options of all commands ------------------------------------------------------- */

#define OPTIONS(X) /* name, word, does it take an argument */                           \
    X(AFTER, "after", 1)      X(AGENT, "agent", 1)    X(ALL, "all", 0)                  \
    X(ALSO, "also", 1)        X(APPLY, "apply", 0)    X(ARRAY, "array", 0)              \
    X(AS, "as", 1)            X(BUDGET, "budget", 1)  X(BY_STORE, "by-store", 0)        \
    X(CONVERSATION, "conversation", 0)                                                  \
    X(DRY_RUN, "dry-run", 0)  X(EXACT, "exact-case", 0)                                 \
    X(FIELDS, "all-fields", 0)                                                          \
    X(FORMAT, "format", 1)    X(FROM, "from", 1)                                        \
    X(GLOBAL, "global", 0)    X(HELP, "help", 0)      X(JSON, "json", 0)                \
    X(KEEP_GOING, "keep-going", 0)                    X(KEEP_LAST, "keep-last", 1)      \
    X(KEYS, "keys", 0)        X(LENIENT, "lenient", 0)                                  \
    X(LIMIT, "limit", 1)      X(LOCATION, "location", 1)                                \
    X(OLDEST, "oldest", 0)    X(PHASE, "phase", 1)    X(RAW, "raw", 0)                  \
    X(REPLACE, "replace", 0)  X(REPORT, "report", 0)  X(SCOPE, "scope", 1)              \
    X(SECONDS, "seconds", 1)  X(SHARED, "shared", 0)                                    \
    X(SINCE, "since", 1)      X(STEP, "step", 1)      X(SYNC, "sync", 1)                \
    X(SYSTEM, "system", 1)    X(TEAM, "team", 1)      X(TIMELINE, "timeline", 0)        \
    X(TO, "to", 1)            X(TURN, "turn", 1)      X(UNTIL, "until", 1)              \
    X(USAGE, "usage", 0)      X(USER, "user", 1)      X(WAIT, "wait", 1)                \
    X(WITH_LOCATION, "with-location", 0)

enum {
#define X(name, word, argument) OPT_##name,
    OPTIONS(X)
#undef X
};

#define BIT(name) ((uint64_t)1 << OPT_##name)
#define GIVEN(o, name) (((o)->given & BIT(name)) != 0)
#define VIEW_OPTIONS                                                                     \
    (BIT(CONVERSATION) | BIT(TEAM) | BIT(GLOBAL) | BIT(TIMELINE) | BIT(TURN) | \
     BIT(SINCE) | BIT(UNTIL))

typedef enum sync_word { SYNC_UNSET, SYNC_NONE, SYNC_EACH, SYNC_END } sync_word;

typedef struct options {
    uint64_t given;           /* BIT of each that was given */
    char **files;             /* the arguments that are no options; a file may be "-" */
    size_t n_files;
    const ms_dialect *from;   /* NULL: look at each message */
    const ms_dialect *to;     /* NULL: a table */
    const ms_profile *provider; /* of --as, or of --format when it names one */
    const char *location, *agent, *turn, *system, *user;
    ms_str *locations;        /* each --location; `location` is the last of them */
    size_t n_locations;
    ms_str *team;
    size_t n_team, limit, keep_last, budget, step;
    double since, until, seconds;
    ms_scope_kind scope;
    int64_t phase;
    uint64_t after;
    sync_word sync;
    uint32_t wait_ms;         /* for another writer */
    bool also_times, also_numbers; /* of diff: compare them, too */
    uint32_t also_skip;       /* and which fields not: bits 1 << MS_F_* */
} options;


/* ---- Input: a splitter over blocks of 64 KiB ------------------------------------------
 * It finds where a value ends by counting brackets outside of strings; whether the value
 * is JSON says ms_json_check afterwards. Only the value at hand is in memory, at most
 * ELEMENT_MAX bytes. Text that cannot become JSON is not collected: each time its length
 * has doubled, what is there is checked, sooner where much of it is expected. */

#define BLOCK_SIZE ((size_t)64 << 10)
#define ELEMENT_MAX ((size_t)256 << 20)
#define PROGRESS_STEP ((uint64_t)16 << 20)

/* Something bad in the input, and where it is. */
typedef struct fault {
    uint64_t offset, line, column;
    char text[512];
} fault;

typedef struct source {
    const char *name;         /* for messages */
    int fd;
    bool eof, progress;
    bool lines;               /* a value ends with its line */
    fault *fault;             /* not NULL: complaints about the input are noted here */
    uint64_t messages;        /* found so far */
    double began;             /* when the source was opened */
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
    s->began = clock_seconds();
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

/* Says what is wrong at the byte `at` behind the start, and where that is in the file; or
 * notes it, where bad input is skipped. */
static int complain_at(const source *s, size_t at, const char *what, const char *text)
{
    fault f;
    uint64_t line_base = s->line_base;
    f.line = s->line;
    f.offset = s->base + s->start + at;
    count_lines(s, at, &f.line, &line_base);
    f.column = f.offset - line_base + 1;
    snprintf(f.text, sizeof f.text, "%s%s", what, text);
    if (s->fault != NULL) {
        *s->fault = f;
        return SKIPPED;
    }
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 "): %s", s->name,
             f.line, f.column, f.offset, f.text);
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
    double seconds = clock_seconds() - s->began;
    fprintf(stderr, "\r%" PRIu64 " MB read, %" PRIu64 " messages, %.0f MB/s\033[K",
            offset / 1000000, s->messages, (double)offset / 1e6 / (seconds + 1e-9));
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
    ms_json_opts opts = {0, s->fault != NULL};
    ms_error err;
    size_t len = 0, look = s->fault != NULL ? BLOCK_SIZE / 64 : BLOCK_SIZE;
    for (split found = SPLIT_MORE; found != SPLIT_BEHIND; len++) {
        int code = s->start + len == s->len ? source_read(s) : FINE;
        if (code != FINE) return code;
        if (s->start + len == s->len) break;
        if (len == look && hopeless(s, len)) break;
        if (len == look) look *= 2;
        if (len >= ELEMENT_MAX) return complain_at(s, 0, "a value of over 256 MiB", "");
        if (s->lines && s->buf[s->start + len] == '\n') break;
        found = splitter_step(&p, s->buf[s->start + len]);
        if (found == SPLIT_BEFORE && len > 0) break;
    }
    ms_str text = ms_str_n(s->buf + s->start, len);
    if (ms_json_check(text, &opts, value, &err) == MS_OK) return FINE;
    size_t at = err.offset < len ? (size_t)err.offset : len;
    return complain_at(s, at, reason_of(&err), "");
}


/* ---- Messages in the input ------------------------------------------------------------
 * A value at the top level, or in an array there, is one of
 *
 *   a message        {"type": "task", ...}, {"role": "user", ...}, ...
 *   a conversation   {"task_id": 3, "traj": [message, ...]}, the body of a request
 *                    {"system": s, "messages": [message, ...]}, or an array of messages
 *   an entry         of a transcript, {"type": "message", "message": {...}}; those that
 *                    are no messages are counted
 *
 * Each message without a location gets that of its conversation: task_id, instance_id, a
 * session's id, or the name of the file, with a running number where that was used
 * before. All messages that stand alone, a line each, are one conversation. */

/* What one message object became. */
typedef struct taken {
    const source *source;
    size_t at;                /* where the object stands, for complain_at */
    ms_str json;              /* the object */
    uint64_t number;          /* of the object in the file, from 1 */
    uint64_t talk;            /* another number for each conversation */
    ms_envelopes list;
} taken;

/* What was skipped, with --keep-going, in all files. */
typedef struct rescue {
    fault fault;              /* the last one */
    uint64_t places, lines, bytes;
    uint64_t repaired;        /* values with bad UTF-8 that were taken nevertheless */
    uint64_t line;            /* of the last place in this file; 0: none yet */
} rescue;

/* Where messages go. */
typedef struct sink {
    int (*take)(void *ctx, const taken *t);
    void *ctx;
    bool guess_agent;         /* calls and results of chats get an agent key */
    bool needs_location;
    bool lines;               /* each value stands on a line of its own */
    rescue *rescue;           /* not NULL: bad input is skipped */
} sink;

typedef struct reader {
    source source;
    const options *options;
    const sink *sink;
    ms_arena arena;           /* of the message at hand */
    tally names;              /* locations given so far */
    tally others;             /* types of entries that are no messages */
    const ms_dialect *transcript; /* the file is one of this format */
    ms_str stem;              /* what a conversation without a name is called */
    uint64_t objects, talks;  /* so far */
    uint64_t line_end;        /* where a line that is partly skipped ends in the file */
} reader;

typedef struct conversation {
    uint64_t number;
    ms_str name;              /* its own; absent: the reader's stem */
    ms_str location;          /* absent until a message needs it */
    const ms_dialect *dialect; /* of messages that could be of several; NULL: openai */
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

/* The agent that was named, for traces without one. */
static void complete_agent(const options *o, ms_envelope *m)
{
    if (m->agent_key.ptr != NULL || o->agent == NULL) return;
    if ((MS_BIT(m->type) & TRACES) != 0) m->agent_key = ms_str_of(o->agent);
}

/* Sets what the input lacks. */
static int complete(reader *r, bool chat, conversation *talk, ms_envelope *m)
{
    bool guess = chat && r->sink->guess_agent && r->options->agent == NULL;
    complete_agent(r->options, m);
    if (m->agent_key.ptr == NULL && guess) {
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

/* Hands on what an object became. */
static int deliver(reader *r, const ms_dialect *dialect, conversation *talk, taken *t)
{
    bool chat = strcmp(ms_dialect_name(dialect), "framework") != 0;
    for (size_t i = 0; i < t->list.count; i++) {
        int code = complete(r, chat, talk, &t->list.items[i]);
        if (code != FINE) return code;
    }
    r->source.messages += t->list.count;
    return r->sink->take(r->sink->ctx, t);
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

/* An entry of a transcript that is no message. A session begins a conversation of its
 * own, with its id as the name. */
static int note_other(reader *r, ms_str object, conversation *talk)
{
    ms_str type = string_member(r, object, "type"), id = string_member(r, object, "id");
    tally_row *row = tally_row_of(&r->others, type);
    if (row == NULL) return no_memory();
    row->count++;
    if (!ms_str_equal(type, MS_STR("session")) || id.len == 0) return FINE;
    if (!r->sink->needs_location || r->options->location != NULL) return FINE;
    *talk = next_conversation(r);
    return copy_text(&r->names.arena, id, &talk->name) ? FINE : no_memory();
}

static int take_message(reader *r, ms_str object, const ms_dialect *dialect,
                        conversation *talk)
{
    ms_error err;
    char what[64];
    ms_read_opts opts = {GIVEN(r->options, LENIENT), r->sink->rescue != NULL};
    size_t at = offset_of(r, object);
    taken t = {&r->source, at, object, ++r->objects, talk->number, {NULL, 0}};
    ms_arena_reset(&r->arena);
    if (ms_read(dialect, object, &opts, &r->arena, &t.list, &err) != MS_OK) {
        if (err.offset < object.len) at += (size_t)err.offset;
        snprintf(what, sizeof what, "%s message: ", ms_dialect_name(dialect));
        return complain_at(&r->source, at, what, err.message);
    }
    if (t.list.count == 0) return note_other(r, object, talk);
    return deliver(r, dialect, talk, &t);
}

/* The system text of a request body stands beside its messages. It is read as a body that
 * has no others. */
static int take_system(reader *r, const ms_dialect *d, ms_str body, conversation *talk)
{
    static const char form[] = "{\"%s\":%.*s,\"%s\":[]}";
    ms_error err;
    ms_str value;
    ms_read_opts opts = {GIVEN(r->options, LENIENT), r->sink->rescue != NULL};
    if (d == NULL || d->system == NULL) return FINE;
    if (!ms_json_member(body, ms_str_of(d->system), &value)) return FINE;
    taken t = {&r->source, offset_of(r, value), value, ++r->objects, talk->number,
               {NULL, 0}};
    ms_arena_reset(&r->arena);
    size_t cap = value.len + strlen(d->system) + sizeof form + 64;
    char *text = ms_arena_alloc(&r->arena, cap);
    if (text == NULL) return no_memory();
    int n = snprintf(text, cap, form, d->system, (int)value.len, value.ptr,
                     d->list != NULL ? d->list : "messages");
    ms_str json = ms_str_n(text, (size_t)n);
    if (ms_read_list(d, json, &opts, &r->arena, &t.list, &err) != MS_OK) {
        return complain_at(&r->source, t.at, "the system text: ", err.message);
    }
    return t.list.count > 0 ? deliver(r, d, talk, &t) : FINE;
}


/* ---- Which format a message is in -------------------------------------------------- */

#define MEMBERS(X) /* that tell one format from another */                               \
    X(type) X(role) X(kind) X(parts) X(content) X(author) X(schema) X(version)           \
    X(payload) X(data) X(metadata) X(message) X(uuid) X(sessionId) X(leafUuid) X(cwd)    \
    X(tool_name) X(tool_arguments) X(tool_calls) X(timestamp) X(created_at) X(msgstore)

/* What an object has of them: JSON values, absent ones NULL. */
typedef struct shape {
#define X(name) ms_str name;
    MEMBERS(X)
#undef X
    ms_type framework;        /* the type that its word means in the framework format */
} shape;

/* Is the JSON text of a member name this one? Hardly any is spelled with escapes. */
static bool key_is(ms_str key, ms_str name)
{
    if (memchr(key.ptr, '\\', key.len) != NULL) return ms_json_string_is(key, name);
    return key.len == name.len + 2 && memcmp(key.ptr + 1, name.ptr, name.len) == 0;
}

static shape shape_of(reader *r, ms_str object)
{
    shape s;
    ms_str word = {NULL, 0};
    memset(&s, 0, sizeof s);
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
#define X(name) if (key_is(it.key, MS_STR(#name))) s.name = it.value;
        MEMBERS(X)
#undef X
    }
    ms_arena_reset(&r->arena);
    ms_json_string(s.type, &r->arena, &word);
    s.framework = ms_type_of_word(word);
    return s;
}

static bool is_kind(ms_str value, ms_json_kind kind)
{
    return value.ptr != NULL && ms_json_kind_of(value) == kind;
}

/* Is it a JSON string that is one of these words, with blanks around each? */
static bool is_word(ms_str value, const char *words)
{
    char text[40];
    if (!is_kind(value, MS_JSON_STRING) || value.len < 3 || value.len > 32) return false;
    snprintf(text, sizeof text, " %.*s ", (int)value.len - 2, value.ptr + 1);
    return strstr(words, text) != NULL;
}

#define ENVELOPE_WORDS                                                                   \
    " text tool_call tool_result input_required approval_required error delta "         \
    "final_result multimodal_part "

static bool shows_envelope(const shape *s)
{
    ms_str type;
    if (ms_json_string_is(s->schema, MS_STR("agents-api.message"))) return true;
    if (s->version.ptr != NULL && is_word(s->type, ENVELOPE_WORDS) &&
        (s->payload.ptr != NULL || s->data.ptr != NULL)) {
        return true;
    }
    return is_kind(s->role, MS_JSON_STRING) && is_kind(s->metadata, MS_JSON_OBJECT) &&
           ms_json_member(s->metadata, MS_STR("type"), &type) &&
           is_word(type, ENVELOPE_WORDS);
}

static bool shows_task(const shape *s)
{
    static const char words[] = " text data tool_request tool_response reasoning ";
    ms_str type = s->type, author = s->author;
    if (is_kind(s->content, MS_JSON_OBJECT) && type.ptr == NULL && author.ptr == NULL) {
        if (!ms_json_member(s->content, MS_STR("type"), &type)) return false;
        if (!ms_json_member(s->content, MS_STR("author"), &author)) return false;
    }
    return is_word(type, words) && is_kind(author, MS_JSON_STRING);
}

static bool shows_pydantic(const shape *s)
{
    return is_word(s->kind, " request response ") && is_kind(s->parts, MS_JSON_ARRAY);
}

static bool shows_gemini(const shape *s)
{
    return is_kind(s->parts, MS_JSON_ARRAY) && s->kind.ptr == NULL;
}

static bool shows_claude_code(const shape *s)
{
    if (is_word(s->type, " file-history-snapshot queue-operation ")) return true;
    if (ms_json_string_is(s->type, MS_STR("summary"))) return s->leafUuid.ptr != NULL;
    return is_kind(s->type, MS_JSON_STRING) && s->role.ptr == NULL &&
           s->uuid.ptr != NULL && (s->message.ptr != NULL || s->sessionId.ptr != NULL);
}

static bool shows_pi(const shape *s)
{
    if (ms_json_string_is(s->type, MS_STR("session"))) return s->cwd.ptr != NULL;
    return ms_json_string_is(s->type, MS_STR("message")) && s->role.ptr == NULL &&
           is_kind(s->message, MS_JSON_OBJECT);
}

static bool shows_framework(const shape *s)
{
    return (MS_BIT(s->framework) & FRAMEWORK_TYPES) != 0;
}

/* Blocks that only this format has, or a whole answer of the provider. */
static bool shows_anthropic(const shape *s)
{
    ms_str type;
    if (!is_kind(s->role, MS_JSON_STRING) || !is_kind(s->content, MS_JSON_ARRAY)) {
        return false;
    }
    if (ms_json_string_is(s->type, MS_STR("message"))) return true;
    ms_json_iter it = ms_json_iterate(s->content);
    while (ms_json_next(&it)) {
        if (ms_json_member(it.value, MS_STR("type"), &type) &&
            is_word(type, " tool_use tool_result thinking redacted_thinking image "
                          "document ")) {
            return true;
        }
    }
    return false;
}

/* Is it the JSON text of a time like "2026-03-02T09:00:00Z"? */
static bool is_time(ms_str value)
{
    double seconds;
    return is_kind(value, MS_JSON_STRING) &&
           ms_iso_read(ms_str_n(value.ptr + 1, value.len - 2), &seconds) == MS_OK;
}

/* A row says when; its calls are no list. */
static bool shows_session(const shape *s)
{
    if (!is_kind(s->role, MS_JSON_STRING) || is_kind(s->tool_calls, MS_JSON_ARRAY)) {
        return false;
    }
    return s->tool_name.ptr != NULL || s->tool_arguments.ptr != NULL ||
           is_kind(s->tool_calls, MS_JSON_OBJECT) ||
           is_kind(s->msgstore, MS_JSON_OBJECT) || is_time(s->timestamp) ||
           is_time(s->created_at);
}

/* In this order: the first that fits is the one. */
static const struct {
    const char *dialect;
    bool (*shows)(const shape *s);
} formats[] = {
    {"envelope", shows_envelope},       {"task", shows_task},
    {"pydantic-ai", shows_pydantic},    {"gemini", shows_gemini},
    {"claude-code", shows_claude_code}, {"pi", shows_pi},
    {"framework", shows_framework},     {"anthropic", shows_anthropic},
    {"session", shows_session},
};

/* A format to read: one of the library, or of a transcript. */
static const ms_dialect *find_format(ms_str name)
{
    const ms_dialect *dialect = ms_dialect_find(name);
    return dialect != NULL ? dialect : transcript_find(name);
}

/* The dialect of a message object; NULL when it shows none. One that has a role and
 * nothing else that tells is of the dialect `otherwise` (NULL: openai). */
static const ms_dialect *dialect_of(reader *r, ms_str object, const ms_dialect *otherwise)
{
    shape s = shape_of(r, object);
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (formats[i].shows(&s)) return find_format(ms_str_of(formats[i].dialect));
    }
    if (!is_kind(s.role, MS_JSON_STRING)) return NULL;
    return otherwise != NULL ? otherwise : ms_dialect_find(MS_STR("openai"));
}

static bool is_object(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_OBJECT;
}

/* Does the object carry a list of messages? Of several the first in this order counts; an
 * empty list is one when there is no other, and so is one of objects that show no format
 * when the options say what they are. */
static bool find_list(reader *r, ms_str object, ms_str *list)
{
    static const char *const names[] = {"messages", "contents", "traj", "history",
                                        "trajectory"};
    ms_str value, first;
    bool any = r->options->from != NULL;
    list->ptr = NULL;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!ms_json_member(object, ms_str_of(names[i]), &value)) continue;
        if (ms_json_kind_of(value) != MS_JSON_ARRAY) continue;
        bool empty = !ms_json_element(value, 0, &first);
        bool shown = !empty && is_object(first) && dialect_of(r, first, NULL) != NULL;
        if ((empty || (any && is_object(first))) && list->ptr == NULL) *list = value;
        if (!shown) continue;
        *list = value;
        break;
    }
    return list->ptr != NULL;
}

/* Beside the messages of a request its system text says whose format it is. */
static const ms_dialect *dialect_of_body(const reader *r, ms_str object)
{
    ms_str value;
    if (r->options->from != NULL) return r->options->from;
    if (ms_json_member(object, MS_STR("contents"), &value)) {
        return ms_dialect_find(MS_STR("gemini"));
    }
    bool apart = ms_json_member(object, MS_STR("system"), &value) &&
                 (is_kind(value, MS_JSON_STRING) || is_kind(value, MS_JSON_ARRAY));
    return apart ? ms_dialect_find(MS_STR("anthropic")) : NULL;
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

/* So many bytes from `offset` on were passed over; the fault says why. */
static int note_skipped(const source *s, rescue *to, uint64_t offset, uint64_t bytes)
{
    const fault *f = &to->fault;
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64
             "): %s; skipped bytes %" PRIu64 " to %" PRIu64, s->name, f->line, f->column,
             f->offset, f->text, offset, offset + bytes - 1);
    to->places++;
    to->bytes += bytes;
    if (f->line != to->line) to->lines++;
    to->line = f->line;
    return FINE;
}

/* The format that a message is to be read in; NULL: it shows none. In a transcript lines
 * that show none are still its own. */
static const ms_dialect *format_of(reader *r, ms_str value, const conversation *talk)
{
    if (r->options->from != NULL) return r->options->from;
    const ms_dialect *dialect = dialect_of(r, value, talk->dialect);
    if (dialect != NULL && dialect->write == NULL) r->transcript = dialect;
    if (dialect != NULL || r->transcript != NULL) {
        return dialect != NULL ? dialect : r->transcript;
    }
    bool typed = string_member(r, value, "type").ptr != NULL;
    return typed ? ms_dialect_find(MS_STR("framework")) : NULL;
}

/* A message, or what should be one. */
static int read_element(reader *r, ms_str value, conversation *talk)
{
    size_t at = offset_of(r, value);
    if (!is_object(value)) return complain_at(&r->source, at, "no message object", "");
    const ms_dialect *dialect = format_of(r, value, talk);
    if (dialect != NULL) return take_message(r, value, dialect, talk);
    return complain_at(&r->source, at, "this message shows no format: ",
                       "\"type\" or \"role\" was expected; --from names a format");
}

static int skip_element(reader *r, ms_str value)
{
    uint64_t offset = r->source.base + r->source.start + offset_of(r, value);
    return note_skipped(&r->source, r->sink->rescue, offset, value.len);
}

/* The same; a bad one is skipped where that is wanted. */
static int take_element(reader *r, ms_str value, conversation *talk)
{
    int code = read_element(r, value, talk);
    return code == SKIPPED ? skip_element(r, value) : code;
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
    bool object = is_object(value) && dialect_of(r, value, NULL) == NULL;
    if (!object || !find_list(r, value, &list)) return take_element(r, value, talk);
    if (r->sink->needs_location) own.name = find_name(r, value);
    own.dialect = dialect_of_body(r, value);
    int code = take_system(r, own.dialect, value, &own);
    if (code == SKIPPED) code = skip_element(r, value);
    return code == FINE ? take_list(r, list, &own) : code;
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

/* ---- Getting over damage in JSON Lines, for --keep-going ------------------------------
 * What cannot be read is passed over to the end of its line, to a NUL, or to an object in
 * the line that must be one of its own: lines that were cut, and ran into the next one
 * when somebody went on writing, and pages of NULs are what crashes leave behind. */

/* How far the line goes: up to a newline, a NUL, or the end of the file. */
static int line_length(source *s, size_t *len)
{
    for (*len = 0; *len < ELEMENT_MAX; ++*len) {
        int code = s->start + *len == s->len ? source_read(s) : FINE;
        if (code != FINE) return code;
        if (s->start + *len == s->len) break;
        char c = s->buf[s->start + *len];
        if (c == '\n' || c == '\0') break;
    }
    return FINE;
}

/* Is this one object, with nothing behind it in the line but perhaps the next one? What
 * stands inside of another object has a comma or a bracket behind it. *last: it ends the
 * line. */
static bool stands_alone(ms_str text, bool *last)
{
    ms_json_opts repair = {0, true};
    ms_error err;
    *last = ms_json_check(text, &repair, NULL, &err) == MS_OK;
    if (*last) return true;
    if (err.offset >= text.len || text.ptr[err.offset] != '{') return false;
    text.len = (size_t)err.offset;
    return ms_json_check(text, &repair, NULL, NULL) == MS_OK;
}

/* Where the next object of its own begins in a line whose byte `bad` is wrong, or the
 * line's end. In front of the bad byte it may be in what looks like a string, since an
 * object that is quoted in one has its quotes escaped; or where a value was to follow: it
 * could then be part of the line, but a newline behind it was not written by a process
 * that died inside of the line. */
static size_t next_object(reader *r, ms_str line, size_t bad, bool newline)
{
    splitter p = {0, false, false};
    bool last;
    for (size_t i = 0; i < line.len; i++) {
        ms_str rest = ms_str_n(line.ptr + i, line.len - i);
        if (i > 0 && line.ptr[i] == '{' && stands_alone(rest, &last)) {
            bool apart = i >= bad || p.string;
            if (apart || (newline && last && dialect_of(r, rest, NULL) != NULL)) return i;
        }
        if (i < bad) splitter_step(&p, line.ptr[i]);
    }
    return line.len;
}

static int skip_line(reader *r)
{
    source *s = &r->source;
    ms_json_opts repair = {0, true};
    ms_error err;
    size_t len, bad = 0;
    uint64_t offset = s->base + s->start;
    if (offset >= r->line_end) {
        int code = line_length(s, &len);
        if (code != FINE) return code;
        r->line_end = offset + len;
    }
    len = (size_t)(r->line_end - offset);
    ms_str line = ms_str_n(s->buf + s->start, len);
    if (ms_json_check(line, &repair, NULL, &err) != MS_OK) {
        bad = err.offset < len ? (size_t)err.offset : len;
        complain_at(s, bad, reason_of(&err), "");
    }
    bool newline = s->start + len < s->len && s->buf[s->start + len] == '\n';
    len = next_object(r, line, bad, newline);
    source_take(s, len);
    return note_skipped(s, r->sink->rescue, offset, len);
}

static int skip_nuls(reader *r)
{
    source *s = &r->source;
    uint64_t offset = s->base + s->start;
    int code = FINE;
    complain_at(s, 0, "NUL bytes", "");
    while (code == FINE) {
        size_t len = 0;
        while (s->start + len < s->len && s->buf[s->start + len] == '\0') len++;
        source_take(s, len);
        if (s->start < s->len || s->eof) break;
        code = source_read(s);
    }
    note_skipped(s, r->sink->rescue, offset, s->base + s->start - offset);
    return code;
}

/* Bytes that are no UTF-8 were replaced in this value: that is worth a word. */
static void note_repaired(reader *r, ms_str value)
{
    ms_error err;
    if (ms_json_check(value, NULL, NULL, &err) == MS_OK) return;
    complain_at(&r->source, offset_of(r, value) + (size_t)err.offset, "", "");
    const fault *f = &r->sink->rescue->fault;
    complain("%s: line %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64
             "): bad UTF-8 was replaced by U+FFFD", r->source.name, f->line, f->column,
             f->offset);
    r->sink->rescue->repaired++;
}

/* Does an array of objects begin here? */
static bool begins_list(const source *s)
{
    size_t at = s->start + 1;
    while (at < s->len && is_space(s->buf[at])) at++;
    return s->buf[s->start] == '[' && at < s->len && s->buf[at] == '{';
}

/* Of an array that is damaged somewhere the elements are read one by one: its bracket is
 * passed over, and so are the commas between them, and its end. */
static int skip_bracket(reader *r)
{
    source *s = &r->source;
    source_take(s, 1);
    return note_skipped(s, r->sink->rescue, s->base + s->start - 1, 1);
}

/* Is this value what is left of an object whose beginning is lost? It does not begin the
 * line, and more of the object follows. */
static bool is_rest(const source *s, ms_str value)
{
    const char *at = value.ptr + value.len, *end = s->buf + s->len;
    const char *line = s->buf + s->start;
    while (line > s->buf && (line[-1] == ' ' || line[-1] == '\t')) line--;
    if (s->base + (uint64_t)(line - s->buf) <= s->line_base) return false;
    while (at < end && (*at == ' ' || *at == '\t' || *at == ',' || *at == ']')) at++;
    return at < end && (*at == '}' || *at == '"');
}

/* The next value, or past what is damaged. */
static int rescue_value(reader *r, int c, conversation *talk)
{
    source *s = &r->source;
    ms_str value;
    if (c == '\0') return skip_nuls(r);
    if (c == ',' || c == ']') {
        source_take(s, 1);
        return FINE;
    }
    int code = next_value(s, &value);
    if (code == SKIPPED && begins_list(s)) return skip_bracket(r);
    if (code == SKIPPED || (code == FINE && is_rest(s, value))) return skip_line(r);
    if (code == FINE) note_repaired(r, value);
    if (code == FINE) code = take_value(r, value, talk);
    if (code == FINE) source_take(s, offset_of(r, value) + value.len);
    return code;
}


/* ---- A whole file ------------------------------------------------------------------ */

static int read_values(reader *r)
{
    source *s = &r->source;
    conversation lines = next_conversation(r);
    int c, code = source_skip_byte_order_mark(s);
    while (code == FINE) {
        code = source_peek(s, &c);
        if (code != FINE || c < 0) break;
        bool array = c == '[' && !s->lines;
        code = s->fault != NULL ? rescue_value(r, c, &lines)
               : array          ? read_array(r)
                                : read_value(r, &lines);
    }
    return code;
}

/* Tells what of a transcript was left out. */
static void complain_of_others(reader *r)
{
    char text[1024];
    size_t len = 0;
    for (size_t i = 0; i < r->others.cap && len < sizeof text; i++) {
        const tally_row *row = &r->others.rows[i];
        if (row->text.ptr == NULL) continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%" PRIu64 " %.*s",
                                len > 0 ? ", " : "", row->count,
                                row->text.len < 60 ? (int)row->text.len : 60,
                                row->text.ptr);
    }
    if (len > 0) complain("%s: left out what is no message: %s", r->source.name, text);
}

/* Reads all of a file into a sink. */
static int read_input(const options *o, const char *path, const sink *to)
{
    reader r;
    memset(&r, 0, sizeof r);
    r.options = o;
    r.sink = to;
    r.stem = o->location != NULL ? ms_str_of(o->location) : stem_of(path);
    int code = source_open(&r.source, path);
    if (code != FINE) return code;
    r.source.lines = to->lines;
    if (to->rescue != NULL) {
        r.source.fault = &to->rescue->fault;
        to->rescue->line = 0;
    }
    code = read_values(&r);
    source_close(&r.source);
    bool none = code == FINE && r.source.messages == 0;
    if (none) complain("%s: no messages in it", r.source.name);
    complain_of_others(&r);
    ms_arena_deinit(&r.arena);
    tally_free(&r.others);
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

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void emit_format(output *out, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    emit_text(out, text);
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

/* ---- Stores: the one place where they are opened ----------------------------------- */

enum { EVENTS_MAX = 1000 };

/* What a command works with. */
typedef struct job {
    const options *options;
    ms_store *store;          /* NULL: none is open */
    bool log;                 /* it is a log file, */
    bool appends;             /* opened for appending */
    ms_arena arena;
    ms_log_event *events;     /* what a log reported, each range once, up to EVENTS_MAX */
    size_t n_events, told;    /* how many, and how many of them were printed */
    struct part *parts;       /* the stores that `store` joins; none: it is one itself */
    size_t n_parts;
} job;

/* One of several stores that are read as one. */
typedef struct part {
    job job;
    options options;          /* with its own file as the first */
} part;

static void note_event(void *ctx, const ms_log_event *event)
{
    job *j = ctx;
    for (size_t i = 0; i < j->n_events; i++) {
        const ms_log_event *e = &j->events[i];
        if (e->kind == event->kind && e->offset == event->offset) return;
    }
    if (j->events == NULL) j->events = calloc(EVENTS_MAX, sizeof *j->events);
    if (j->events != NULL && j->n_events < EVENTS_MAX) j->events[j->n_events++] = *event;
}

enum { EVENT_TEXT = 200 };

/* "damaged    bytes 4096 to 4199, between messages 3 and 5" */
static const char *event_text(const ms_log_event *e, char out[EVENT_TEXT])
{
    static const char *const words[] = {"damaged", "torn", "sync", "index"};
    uint64_t last = e->offset + (e->length > 0 ? e->length - 1 : 0);
    int n = snprintf(out, EVENT_TEXT, "%-10s bytes %" PRIu64 " to %" PRIu64,
                     (size_t)e->kind < COUNT_OF(words) ? words[e->kind] : "event",
                     e->offset, last);
    size_t len = (size_t)n, room = EVENT_TEXT - len;
    if (e->kind == MS_LOG_SYNC_FAILED) {
        snprintf(out + len, room, ": a sync failed: %s", strerror(e->sys_errno));
    } else if (e->kind == MS_LOG_INDEX_DAMAGE) {
        snprintf(out + len, room, ": made anew, nothing is lost");
    } else if (e->after_seq > 0 && e->before_seq > 0) {
        snprintf(out + len, room, ", between messages %" PRIu64 " and %" PRIu64,
                 e->after_seq, e->before_seq);
    } else if (e->after_seq > 0) {
        snprintf(out + len, room, ", behind message %" PRIu64, e->after_seq);
    } else if (e->before_seq > 0) {
        snprintf(out + len, room, ", before message %" PRIu64, e->before_seq);
    }
    return out;
}

static void print_events(output *out, job *j)
{
    char text[EVENT_TEXT];
    for (; j->told < j->n_events; j->told++) {
        emit_format(out, "%s\n", event_text(&j->events[j->told], text));
    }
}

/* The same on stderr, for commands whose output is something else. */
static void complain_of_events(job *j)
{
    char text[EVENT_TEXT];
    for (; j->told < j->n_events; j->told++) {
        complain("%s: %s", j->options->files[0],
                 event_text(&j->events[j->told], text));
    }
}

/* Was anything found damaged that was to be read? */
static bool met_damage(const job *j)
{
    for (size_t i = 0; i < j->n_events && !j->appends; i++) {
        if (j->events[i].kind == MS_LOG_DAMAGE) return true;
    }
    return false;
}

/* How a log is opened for writing, as far as the options say. */
static void set_writing(const options *o, ms_log_desc *desc)
{
    desc->shared = GIVEN(o, SHARED);
    desc->lock_wait_ms = o->wait_ms;
}

/* Is the file a log? Its first bytes tell. */
static bool is_log(const char *path)
{
    static const char magic[] = "\x89MSL\r\n\x1a\n";
    char found[sizeof magic - 1];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, found, sizeof found);
    close(fd);
    return n == (ssize_t)sizeof found && memcmp(found, magic, sizeof found) == 0;
}

static int open_log(job *j, const char *path, const ms_log_desc *how)
{
    ms_error err;
    ms_log_desc desc = *how;
    desc.path = path;
    desc.events.event = note_event;
    desc.events.ctx = j;
    ms_result result = ms_log_open(&j->store, &desc, &err);
    if (result != MS_OK) return complain_of(NULL, result, &err);
    j->log = true;
    return FINE;
}

static int open_to_read(job *j)
{
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_READ;
    return open_log(j, j->options->files[0], &desc);
}

/* Can another message be stored although this one could not? */
static bool is_about_message(ms_result result)
{
    static const ms_result results[] = {
        MS_E_ARGUMENT, MS_E_TOO_LARGE, MS_E_KEY_REUSED, MS_E_SYNTAX, MS_E_UTF8,
        MS_E_DEPTH,    MS_E_KIND,      MS_E_RANGE,      MS_E_MISSING, MS_E_TYPE,
    };
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        if (results[i] == result) return true;
    }
    return false;
}

/* Stores what an object became, all or nothing. seqs may be NULL. */
static int store_messages(ms_store *store, const taken *t, uint64_t *seqs)
{
    ms_error err;
    ms_append_opts opts = {0};
    opts.seqs = seqs;
    ms_result result = ms_append_batch(store, t->list.items, t->list.count, &opts, &err);
    if (result == MS_OK) return FINE;
    if (!is_about_message(result)) return complain_of("storing a message", result, &err);
    int code = complain_at(t->source, t->at, "storing this message: ", err.message);
    return code == SKIPPED ? SKIPPED : exit_code(result);
}

static int load_take(void *ctx, const taken *t)
{
    return store_messages(ctx, t, NULL);
}

/* Opens what the argument STORE names: a log for reading; a file of messages becomes a
 * store in memory. */
static int open_store(job *j)
{
    ms_error err;
    ms_mem_desc desc = {0};
    const char *path = j->options->files[0];
    if (is_log(path)) return open_to_read(j);
    desc.keep_unset_times = true;
    ms_result result = ms_mem_open(&j->store, &desc, &err);
    if (result != MS_OK) return complain_of("opening a store", result, &err);
    sink to = {load_take, j->store, true, true, false, NULL};
    return read_input(j->options, path, &to);
}

/* Joins the parts of a job into one store. */
static int join_parts(job *j)
{
    ms_error err;
    ms_union_desc desc;
    memset(&desc, 0, sizeof desc);
    ms_store **stores = ms_arena_alloc(&j->arena, j->n_parts * sizeof *stores);
    if (stores == NULL) return no_memory();
    for (size_t i = 0; i < j->n_parts; i++) stores[i] = j->parts[i].job.store;
    desc.stores = stores;
    desc.n_stores = j->n_parts;
    desc.order = GIVEN(j->options, BY_STORE) ? MS_UNION_BY_STORE : MS_UNION_BY_TIME;
    ms_result result = ms_union_open(&j->store, &desc, &err);
    return result == MS_OK ? FINE : complain_of("joining the stores", result, &err);
}

/* Opens the first n arguments as one store. */
static int open_stores(job *j, size_t n)
{
    if (n == 1) return open_store(j);
    j->parts = calloc(n, sizeof *j->parts);
    if (j->parts == NULL) return no_memory();
    for (; j->n_parts < n; j->n_parts++) {
        part *p = &j->parts[j->n_parts];
        p->options = *j->options;
        p->options.files = j->options->files + j->n_parts;
        p->job.options = &p->options;
        int code = open_store(&p->job);
        if (code == FINE) continue;
        j->n_parts++; /* it may be half open */
        return code;
    }
    return join_parts(j);
}

/* The store, when it is several in one, else NULL. */
static ms_store *joined_store(const job *j)
{
    return j->n_parts > 0 ? j->store : NULL;
}

/* Closes what is open; DAMAGED when something that was read could not be. */
static int close_job(job *j)
{
    int code = FINE;
    ms_close(j->store);
    j->store = NULL;
    for (size_t i = 0; i < j->n_parts; i++) {
        if (close_job(&j->parts[i].job) != FINE) code = DAMAGED;
    }
    complain_of_events(j);
    if (met_damage(j)) code = DAMAGED;
    ms_arena_deinit(&j->arena);
    free(j->parts);
    free(j->events);
    return code;
}


/* ---- Choosing what to look at ------------------------------------------------------ */

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
 * error, usually) is NOT_FOUND; absent: any will do. */
static int look_up(job *j, bool agents, ms_str location, ms_str name, ms_listing *list)
{
    ms_error err;
    ms_list_query query = {0};
    query.agents = agents;
    query.location = location;
    ms_result result = ms_list(j->store, &query, &j->arena, list, &err);
    if (result != MS_OK) return complain_of("listing the store", result, &err);
    if (name.ptr == NULL) return FINE;
    for (size_t i = 0; i < list->count; i++) {
        ms_str item = agents ? list->items[i].agent_key : list->items[i].location;
        if (ms_str_equal(item, name)) return FINE;
    }
    complain("no messages of %s %.*s", agents ? "agent" : "location",
             name.len < 1024 ? (int)name.len : 1024, name.ptr);
    hint(list, agents);
    return NOT_FOUND;
}

/* Sets the location to show: the one that is named, which must be there; where one is
 * needed, the only one; else absent, for all. An agent may be new: then it is said. */
static int choose_location(job *j, const char *name, bool needed, ms_str *location)
{
    ms_listing list;
    const options *o = j->options;
    ms_str all = {NULL, 0};
    int code = look_up(j, false, all, ms_str_of(name), &list);
    if (code != FINE) return code;
    *location = ms_str_of(name);
    if (name == NULL && needed && list.count == 0) return NOT_FOUND;
    if (name == NULL && needed && list.count > 1) {
        complain("--location is needed");
        hint(&list, false);
        return USAGE;
    }
    if (name == NULL && needed) *location = list.items[0].location;
    if (o->agent != NULL) look_up(j, true, *location, ms_str_of(o->agent), &list);
    return FINE;
}

/* Is it among those that were named, if any were? */
static bool is_wanted(const options *o, ms_str location)
{
    bool wanted = o->n_locations == 0;
    for (size_t i = 0; i < o->n_locations && !wanted; i++) {
        wanted = ms_str_equal(o->locations[i], location);
    }
    return wanted;
}


/* ---- Listings: lines of a format, tables ------------------------------------------- */

/* What a view or a history shows; may be opened several times. */
typedef struct listing {
    ms_store *store;
    const ms_query *query;    /* used when memory is NULL */
    const ms_memory *memory;
    ms_arena *arena;
    ms_store *joined;         /* store, when it is several in one, else NULL */
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
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION), false};
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
    unsigned seq, time, location, agent, kind, type, body;
    bool located;             /* there is a column of locations */
    bool colour;
    ms_store *joined;         /* several stores in one: numbers name the store, too */
} table;

enum { CELL_BYTES = 8192, NAME_LIMIT = 24 };

static void widen(unsigned *column, ms_str text)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, NAME_LIMIT);
    cell_put(&c, text);
    if (c.width > *column) *column = c.width;
}

/* Is the record a message, or about one and no more? */
static bool is_of_message(const ms_msg *msg)
{
    return ms_kind_of(msg) != MS_KIND_HIDE && ms_kind_of(msg) != MS_KIND_LOCATION;
}

/* "17", of the second of several stores "2:17". t may be NULL. */
static ms_str seq_text(const table *t, const ms_msg *msg, char out[TIME_MAX])
{
    uint64_t own, seq = ms_seq(msg);
    size_t which;
    if (!is_of_message(msg)) return MS_STR("-");
    int n = t != NULL && t->joined != NULL &&
                    ms_union_origin(t->joined, seq, &which, &own, NULL) == MS_OK
                ? snprintf(out, TIME_MAX, "%zu:%" PRIu64, which + 1, own)
                : snprintf(out, TIME_MAX, "%" PRIu64, seq);
    return ms_str_n(out, (size_t)n);
}

/* Marks of what was done to a message: * amended, ~ still being written. */
static ms_str type_text(const ms_msg *msg, char out[CELL_BYTES])
{
    ms_str word = ms_type_name(msg);
    uint32_t flags = ms_flags(msg);
    if (ms_kind_of(msg) == MS_KIND_HIDE) return MS_STR("hide");
    const char *mark = (flags & MS_FLAG_UNFINISHED) != 0 ? "~"
                       : (flags & MS_FLAG_AMENDED) != 0  ? "*"
                                                         : "";
    if (mark[0] == '\0' || word.len > CELL_BYTES / 2) return word;
    int n = snprintf(out, CELL_BYTES, "%.*s%s", (int)word.len, word.ptr, mark);
    return ms_str_n(out, (size_t)n);
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

/* joined: several stores in one, whose numbers are to be told apart, else NULL. */
static table new_table(ms_store *joined)
{
    table t = {0};
    const char *no_colour = getenv("NO_COLOR");
    t.joined = joined;
    t.agent = 1;
    t.colour = isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0');
    return t;
}

/* Makes room for a message in all columns but the last, which gets the rest. */
static void table_fit(table *t, const ms_msg *msg)
{
    char text[TIME_MAX], type[CELL_BYTES];
    widen(&t->seq, seq_text(t, msg, text));
    widen(&t->time, when_text(msg, text));
    widen(&t->location, ms_location(msg));
    widen(&t->agent, ms_agent_key(msg));
    widen(&t->type, type_text(msg, type));
}

static void table_fill(table *t)
{
    unsigned line = line_width(), used = t->seq + t->time + t->agent + t->type + 8;
    if (t->located) used += t->location + 2;
    if (t->kind > 0) used += t->kind + 2;
    t->body = line > used + 20 ? line - used : 20;
}

/* Looks at all messages once, to align the columns. What is damaged will be said when
 * they are read again. */
static int table_measure(const listing *l, table *t)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_str first = {NULL, 0};
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        table_fit(t, msg);
        if (first.ptr == NULL && !copy_text(l->arena, ms_location(msg), &first)) break;
        t->located = t->located || !ms_str_equal(first, ms_location(msg));
    }
    ms_cursor_close(&it, NULL);
    table_fill(t);
    return msg == NULL ? FINE : no_memory();
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

/* All but the last one. */
static void print_columns(const table *t, const ms_msg *msg, output *out)
{
    char text[TIME_MAX], type[CELL_BYTES];
    ms_str seq = seq_text(t, msg, text);
    emit_pad(out, (unsigned)seq.len, t->seq);
    put_column(out, seq, (unsigned)seq.len, NULL);
    put_column(out, when_text(msg, text), t->time, t->colour ? "\033[2m" : NULL);
    if (t->located) put_column(out, ms_location(msg), t->location, NULL);
    put_column(out, ms_agent_key(msg), t->agent, NULL);
    put_column(out, type_text(msg, type), t->type, type_colour(t, msg));
}

static void print_row(const table *t, const ms_msg *msg, output *out)
{
    char buf[CELL_BYTES];
    print_columns(t, msg, out);
    cell body = cell_over(buf, sizeof buf, t->body);
    put_body(&body, msg);
    emit(out, body.buf, body.len);
    emit(out, "\n", 1);
}

static int print_table(const listing *l, output *out)
{
    table t = new_table(l->joined);
    ms_cursor it;
    const ms_msg *msg;
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

#include "raw.h"


/* ---- msgstore convert, msgstore export --------------------------------------------- */

typedef struct converter {
    output out;
    const options *options;
    const ms_dialect *to;
    ms_writer_opts opts;
    ms_arena arena;           /* of the writer */
    ms_writer writer;
    uint64_t talk;
} converter;

static void converter_begin(converter *c, uint64_t talk)
{
    c->talk = talk;
    ms_arena_reset(&c->arena);
    ms_writer_init(&c->writer, c->to, &c->opts, &c->arena, emit, &c->out);
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
static int converter_turn(converter *c, uint64_t talk)
{
    if (talk == c->talk || c->opts.array) return FINE;
    if (converter_end(c) != FINE) return FAILED;
    converter_begin(c, talk);
    return FINE;
}

static int convert_take(void *ctx, const taken *t)
{
    converter *c = ctx;
    ms_error err;
    if (converter_turn(c, t->talk) != FINE) return FAILED;
    for (size_t i = 0; i < t->list.count; i++) {
        if (ms_writer_put(&c->writer, &t->list.items[i], &err) == MS_OK) continue;
        if (c->out.error != 0) return FAILED;
        return complain_at(t->source, t->at, "writing this message: ", err.message);
    }
    return FINE;
}

/* The messages of a query that are wanted, as one conversation. */
static int convert_query(converter *c, ms_store *store, const ms_query *q, uint64_t talk)
{
    listing l = {store, q, NULL, NULL, NULL};
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    int code = converter_turn(c, talk);
    if (code == FINE) code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && (msg = ms_next(&it)) != NULL) {
        if (!is_wanted(c->options, ms_location(msg))) continue;
        ms_envelope m = ms_envelope_of(msg);
        complete_agent(c->options, &m);
        ms_result result = ms_writer_put(&c->writer, &m, &err);
        if (result == MS_OK) continue;
        if (c->out.error == 0) complain("message %" PRIu64 ": %s", m.seq, err.message);
        code = FAILED;
    }
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

static int by_first_seq(const void *a, const void *b)
{
    const ms_info *x = a, *y = b;
    return (x->first_seq > y->first_seq) - (x->first_seq < y->first_seq);
}

/* A store as its messages came; but chats, which do not say whose they are, conversation
 * after conversation. What is damaged is left out, and known at the end. */
static int convert_store(converter *c, job *j)
{
    ms_listing list;
    ms_query q = {0};
    int code = look_up(j, false, q.location, q.location, &list);
    for (size_t i = 0; i < c->options->n_locations && code == FINE; i++) {
        code = look_up(j, false, q.location, c->options->locations[i], &list);
    }
    if (code != FINE) return code;
    bool framework = strcmp(ms_dialect_name(c->to), "framework") == 0;
    if (framework || c->opts.array) return convert_query(c, j->store, &q, 0);
    if (list.count > 0) qsort(list.items, list.count, sizeof *list.items, by_first_seq);
    for (size_t i = 0; i < list.count && (code == FINE || code == DAMAGED); i++) {
        q.location = list.items[i].location;
        int one = is_wanted(c->options, q.location)
                      ? convert_query(c, j->store, &q, i) : FINE;
        if (one != FINE) code = one;
    }
    return code;
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

static int convert(job *j, const ms_dialect *to, bool with_location)
{
    converter c;
    const options *o = j->options;
    bool array = GIVEN(o, ARRAY);
    sink into = {convert_take, &c, false, with_location, false, NULL};
    memset(&c, 0, sizeof c);
    c.options = o;
    c.to = to;
    c.opts.array = array;
    c.opts.with_location = with_location;
    c.out.file = array ? tmpfile() : stdout;
    if (c.out.file == NULL) {
        complain("no temporary file for --array: %s", strerror(errno));
        return FAILED;
    }
    converter_begin(&c, 0);
    int code = j->store != NULL ? convert_store(&c, j)
                                : read_input(o, o->files[0], &into);
    int ended = converter_end(&c);
    code = output_end(&c.out, code != FINE ? code : ended);
    if (array && (code == FINE || code == DAMAGED)) {
        int printed = print_file(c.out.file);
        if (printed != FINE) code = printed;
    }
    if (array) fclose(c.out.file);
    ms_arena_deinit(&c.arena);
    return code;
}

static int run_convert(job *j)
{
    const options *o = j->options;
    int code = is_log(o->files[0]) ? open_to_read(j) : FINE;
    return code == FINE ? convert(j, o->to, GIVEN(o, WITH_LOCATION)) : code;
}

static int run_export(job *j)
{
    const ms_dialect *framework = ms_dialect_find(MS_STR("framework"));
    const ms_dialect *to = j->options->to != NULL ? j->options->to : framework;
    if (GIVEN(j->options, FORMAT) && j->options->to == NULL) {
        complain("export --format expects a message format, not table");
        return USAGE;
    }
    return convert(j, to, to == framework || GIVEN(j->options, WITH_LOCATION));
}


/* ---- msgstore view, msgstore history ----------------------------------------------- */

/* What the options ask for; any location. */
static ms_query query_of(const options *o, ms_arena *arena)
{
    ms_query q = {0};
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
    return q;
}

static int run_view(job *j)
{
    const options *o = j->options;
    ms_query q = query_of(o, &j->arena);
    listing l = {NULL, &q, NULL, &j->arena, NULL};
    int code = check_raw("view", o);
    if (code == FINE) code = open_stores(j, o->n_files);
    l.store = j->store;
    l.joined = joined_store(j);
    if (code == FINE) code = choose_location(j, o->location, false, &q.location);
    if (code != FINE) return code;
    if (!GIVEN(o, RAW)) return print_listing(o, &l);
    q.raw = MS_RAW_ALL;
    q.arena = NULL;
    return print_raw(o, &l);
}

/* One agent's view of a location, as the options have it. */
static void set_memory(job *j, ms_str location, ms_memory *m)
{
    const options *o = j->options;
    ms_memory_init(m, j->store, location, ms_str_of(o->agent));
    m->subordinates = o->team;
    m->n_subordinates = o->n_team;
    m->timeline = GIVEN(o, TIMELINE);
    m->conversation_limit = m->agent_limit = m->team_limit = m->global_limit = o->limit;
    m->limit = o->limit;
    m->scope.kind = o->scope;
    m->scope.turns = o->limit;
    m->scope.has_phase = GIVEN(o, PHASE);
    m->scope.phase = o->phase;
    m->arena = &j->arena;
}

static void print_report(const ms_project_report *r)
{
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
        {r->read, "messages read"},
        {r->left_out, "left out before the window"},
        {r->dropped, "dropped: never sent, empty, doubled, or results without a call"},
        {r->orphans, "of these: results whose call is not there"},
        {r->duplicates, "of these: further results of one call"},
        {r->wrapped, "said in another form"},
        {r->renamed, "call ids and tool names changed"},
        {r->shortened, "shortened"},
        {r->synthesised, "results made up for calls without one"},
        {r->merged, "texts that went on the message before"},
        {r->started, "messages put in front, so that the user begins"},
        {r->cost, "tokens, by estimate, in the window"},
        {r->newest_turn, "of these: the newest turn, with the system text"},
        {r->first_seq, "is the number of the first message in the window"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fprintf(stderr, "%10" PRIu64 "  %s\n", rows[i].count, rows[i].what);
    }
}

/* The messages of a location as the body of a request that the provider takes. */
static int project(job *j, ms_str location)
{
    ms_error err;
    ms_cursor it;
    output out = {stdout, 0};
    ms_project_report report = {0};
    ms_project_opts opts = {0};
    const options *o = j->options;
    ms_query all = {0};
    listing l = {j->store, &all, NULL, NULL, NULL};
    all.location = location;
    opts.agent_key = ms_str_of(o->agent);
    opts.system = ms_str_of(o->system);
    opts.newest = o->limit;
    opts.budget = o->budget;
    opts.step = o->step;
    opts.stable = true;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    ms_result result = ms_project(o->provider, &opts, ms_next_of, &it, &j->arena, emit,
                                  &out, &report, &err);
    if (result == MS_OK) emit(&out, "\n", 1);
    else if (out.error == 0) code = complain_of(NULL, result, &err);
    if (GIVEN(o, REPORT) && out.error == 0) print_report(&report);
    int closed = listing_close(&it);
    return output_end(&out, code != FINE ? code : closed);
}

/* Is it to be a request? These options list the messages as they are, also in the words
 * of a provider. */
static bool is_request(const options *o)
{
    return o->provider != NULL && !GIVEN(o, TEAM) && !GIVEN(o, TIMELINE) &&
           !GIVEN(o, SCOPE) && !GIVEN(o, PHASE) && !GIVEN(o, WITH_LOCATION);
}

/* Do the options of a history fit each other? */
static int check_history(const options *o)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } of_requests[] = {
        {BIT(BUDGET), "budget"}, {BIT(REPORT), "report"}, {BIT(STEP), "step"},
        {BIT(SYSTEM), "system"},
    };
    if (GIVEN(o, FORMAT) && is_request(o)) return FINE;
    for (size_t i = 0; i < COUNT_OF(of_requests); i++) {
        if ((o->given & of_requests[i].bit) == 0) continue;
        complain("history --%s is for requests: it needs --format PROVIDER, and none of "
                 "--team, --timeline, --scope, --phase, --with-location",
                 of_requests[i].word);
        return USAGE;
    }
    if (o->agent != NULL) return FINE;
    complain("history needs the option --agent, or --format PROVIDER");
    fprintf(stderr, "msgstore history -h tells more\n");
    return USAGE;
}

static int run_history(job *j)
{
    ms_memory m;
    ms_str location;
    const options *o = j->options;
    listing l = {j->store, NULL, &m, &j->arena, NULL};
    int code = check_history(o);
    if (code == FINE) code = open_store(j);
    if (code != FINE) return code;
    const char *name = o->n_files > 1 ? o->files[1] : o->location;
    code = choose_location(j, name, true, &location);
    if (code != FINE) return code;
    if (is_request(o)) return project(j, location);
    set_memory(j, location, &m);
    return print_listing(o, &l);
}


#include "diff.h"
#include "search.h"


/* ---- msgstore lookup --------------------------------------------------------------- */

/* "session-<location>-msg-<n>": the location and n. */
static bool parse_key(ms_str key, ms_str *location, uint64_t *index)
{
    static const char mark[] = "-msg-";
    const size_t len = sizeof mark - 1;
    size_t at = key.len;
    if (!ms_str_starts_with(key, MS_STR("session-"))) return false;
    while (at > 8 + len && memcmp(key.ptr + at - len, mark, len) != 0) at--;
    if (at <= 8 + len || at == key.len || key.ptr[at] == '-') return false;
    *location = ms_str_n(key.ptr + 8, at - len - 8);
    return ms_json_u64(ms_str_n(key.ptr + at, key.len - at), index) == MS_OK &&
           *index < UINT64_MAX;
}

/* The text of a message to a file as it is; to a terminal without what could steer it. */
static void emit_message_text(output *out, ms_str text)
{
    char bytes[4];
    bool plain = isatty(fileno(out->file)) == 0;
    if (plain) emit(out, text.ptr, text.len);
    while (!plain && text.len > 0 && out->error == 0) {
        uint32_t point = next_point(&text);
        bool line = point == '\n' || point == '\t';
        emit(out, bytes, put_utf8(bytes, line ? point : visible(point)));
    }
    if (text.len == 0 || text.ptr[text.len - 1] != '\n') emit(out, "\n", 1);
}

/* What was found: its text; in a format, or when it has none, the whole message. */
static int print_found(job *j, const ms_envelope *m)
{
    output out = {stdout, 0};
    ms_error err;
    ms_writer w;
    ms_result result = MS_OK;
    const ms_dialect *to = j->options->to;
    ms_writer_opts opts = {false, false, GIVEN(j->options, WITH_LOCATION), false};
    if (to == NULL && m->content.text.ptr != NULL) {
        emit_message_text(&out, m->content.text);
        return output_end(&out, FINE);
    }
    if (to == NULL) to = ms_dialect_find(MS_STR("framework"));
    ms_writer_init(&w, to, &opts, &j->arena, emit, &out);
    result = ms_writer_put(&w, m, &err);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    int code = result == MS_OK || out.error != 0 ? FINE : complain_of(NULL, result, &err);
    return output_end(&out, code);
}

/* The message of a key in a location of that name. */
static ms_result find_plain(job *j, ms_str key, ms_envelope *m, ms_error *err)
{
    ms_str location;
    uint64_t index;
    const ms_msg *msg;
    if (!parse_key(key, &location, &index)) {
        return ms_error_set(err, MS_E_NOT_FOUND,
                            "no key; session-ID-msg-NUMBER was expected");
    }
    ms_result result = ms_get_by_position(j->store, location, index + 1, &j->arena, &msg,
                                          err);
    if (result == MS_OK) *m = ms_envelope_of(msg);
    return result;
}

static int run_lookup(job *j)
{
    ms_error err;
    ms_envelope m;
    const options *o = j->options;
    ms_str key = ms_str_of(o->files[1]);
    ms_result result = o->user != NULL
                           ? ms_session_lookup(j->store, ms_str_of(o->user), key,
                                               &j->arena, &m, &err)
                           : find_plain(j, key, &m, &err);
    if (result == MS_OK) return print_found(j, &m);
    if (result != MS_E_NOT_FOUND) return complain_of(o->files[1], result, &err);
    complain("%s: not found%s%s%s; %s", o->files[1], o->user != NULL ? " for user " : "",
             o->user != NULL ? o->user : "",
             o->user != NULL ? "" : " (the key of a user's session needs --user)",
             err.message);
    return FAILED;
}


/* ---- msgstore check ---------------------------------------------------------------- */

typedef struct checker {
    output out;
    const char *file;
    ms_arena arena;           /* of the file at hand */
    uint64_t found;           /* violations in all files */
} checker;

static void check_report(void *ctx, const char *path, const char *text)
{
    checker *c = ctx;
    char line[4096];
    cell shown = cell_over(line, sizeof line, sizeof line);
    cell_put(&shown, ms_str_of(c->file));
    cell_put(&shown, MS_STR(": "));
    cell_put(&shown, ms_str_of(path));
    if (path[0] != '\0') cell_put(&shown, MS_STR(": "));
    cell_put(&shown, ms_str_of(text));
    emit(&c->out, shown.buf, shown.len);
    emit(&c->out, "\n", 1);
    c->found++;
}

/* Reads a whole file. */
static int read_whole(source *s)
{
    int code = source_skip_byte_order_mark(s);
    while (code == FINE && !s->eof) {
        if (s->len - s->start >= ELEMENT_MAX) {
            return complain_at(s, 0, "a file of over 256 MiB", "");
        }
        code = source_read(s);
    }
    return code;
}

/* Lines of one message each make a list; *json is absent when they do not. */
static int list_of_lines(checker *c, ms_str text, ms_str *json)
{
    ms_str value;
    ms_buf list = {&c->arena, NULL, 0, 0};
    ms_result result = MS_OK;
    *json = ms_str_n(NULL, 0);
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        size_t used = len + (end != NULL);
        ms_str line = ms_str_n(text.ptr, len);
        text = ms_str_n(text.ptr + used, text.len - used);
        while (line.len > 0 && is_space(line.ptr[line.len - 1])) line.len--;
        if (line.len == 0) continue;
        if (ms_json_check(line, NULL, &value, NULL) != MS_OK || !is_object(value)) {
            return FINE;
        }
        if (result == MS_OK) result = ms_buf_write(&list, list.len > 0 ? "," : "[", 1);
        if (result == MS_OK) result = ms_buf_write(&list, value.ptr, value.len);
    }
    if (result == MS_OK && list.len > 0) result = ms_buf_write(&list, "]", 1);
    if (result != MS_OK) return no_memory();
    if (list.len > 0) *json = ms_buf_text(&list);
    return FINE;
}

/* Of the body of a request only what is about messages is checked. Where the system text
 * stands beside them, a list alone is taken for a body without one. */
static int messages_of(checker *c, const ms_profile *provider, ms_str *json)
{
    ms_str value, body = *json;
    const ms_dialect *d = ms_dialect_find(ms_str_of(provider->dialect));
    ms_str list = ms_str_of(d->list != NULL ? d->list : "messages");
    ms_buf buf = {&c->arena, NULL, 0, 0};
    ms_json_writer w;
    bool alone = is_kind(body, MS_JSON_ARRAY);
    if (!alone && (!is_object(body) || !ms_json_member(body, list, &value))) return FINE;
    if (!alone) *json = value;
    if (d->system == NULL) return FINE;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    if (!alone && ms_json_member(body, ms_str_of(d->system), &value)) {
        ms_json_key(&w, ms_str_of(d->system));
        ms_json_put_raw(&w, value);
    }
    ms_json_key(&w, list);
    ms_json_put_raw(&w, *json);
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK) return no_memory();
    *json = ms_buf_text(&buf);
    return FINE;
}

static int check_text(checker *c, const ms_profile *provider, source *s)
{
    ms_error err;
    ms_str json, text = ms_str_n(s->buf + s->start, s->len - s->start);
    int code = FINE;
    if (ms_json_check(text, NULL, &json, &err) != MS_OK) {
        code = list_of_lines(c, text, &json);
        if (code == FINE && json.ptr == NULL) {
            size_t at = err.offset < text.len ? (size_t)err.offset : text.len;
            return complain_at(s, at, reason_of(&err), "");
        }
    }
    if (code == FINE) code = messages_of(c, provider, &json);
    if (code != FINE) return code;
    int found = lint_request(provider->name, json, &c->arena, check_report, c);
    return found >= 0 ? FINE : no_memory();
}

/* Exit codes are those of a checker: 0 fine, 1 something found, 2 could not look. */
static int run_check(job *j)
{
    checker c;
    source s;
    int worst = FINE;
    const options *o = j->options;
    size_t n = o->n_files > 0 ? o->n_files : 1;     /* none: standard input */
    memset(&c, 0, sizeof c);
    c.out.file = stdout;
    for (size_t i = 0; i < n; i++) {
        int code = source_open(&s, o->files[i]);
        c.file = s.name;
        if (code == FINE) {
            code = read_whole(&s);
            if (code == FINE) code = check_text(&c, o->provider, &s);
            source_close(&s);
        }
        if (code != FINE) worst = USAGE;
        ms_arena_reset(&c.arena);
    }
    ms_arena_deinit(&c.arena);
    if (worst == FINE && c.found > 0) worst = FAILED;
    return output_end(&c.out, worst);
}


/* ---- msgstore info ----------------------------------------------------------------- */

enum { INFO_ROWS = 20, INFO_NEWEST = 5 };

typedef struct census {
    tally locations, agents, types;
    uint64_t timed;           /* messages with a time */
    double first, last;
    ms_stat stat;
    ms_log_info log;          /* of a log */
    char id[33];              /* hexadecimal */
    ms_listing newest;        /* locations */
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
    listing l = {store, &all, NULL, NULL, NULL};
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

/* Sorts the rows, unused ones last: no look-ups afterwards. How many to show. */
static size_t tally_rank(tally *t, bool all)
{
    if (t->used > 0) qsort(t->rows, t->cap, sizeof *t->rows, by_count);
    return all || t->used < INFO_ROWS ? t->used : INFO_ROWS;
}

static void put_name(output *out, ms_str name)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, 60);
    cell_put(&c, name.len > 0 ? name : MS_STR("-"));
    emit(out, c.buf, c.len);
    emit(out, "\n", 1);
}

static void print_tally(output *out, const char *title, tally *t, bool all)
{
    size_t n = tally_rank(t, all);
    emit_format(out, "%-10s %zu\n", title, t->used);
    for (size_t i = 0; i < n; i++) {
        const tally_row *row = &t->rows[i];
        emit_format(out, "%12" PRIu64 " %12" PRIu64 " bytes  ", row->count, row->bytes);
        put_name(out, row->text);
    }
    if (n < t->used) emit_format(out, "             ... and %zu more\n", t->used - n);
}

static void print_log_info(output *out, job *j, const census *c)
{
    char made[TIME_MAX], text[TIME_MAX];
    const ms_log_info *log = &c->log;
    emit_format(out, "log        %s, made %s\n", c->id, time_text(log->created, made));
    emit_format(out, "bytes      %" PRIu64 " in use, %" PRIu64 " in the file\n", log->end,
                log->size);
    emit_format(out, "durable    up to message %" PRIu64 " (byte %" PRIu64 ")\n",
                log->durable_seq, log->durable_end);
    emit_format(out, "index      %" PRIu64 " segments, %" PRIu64 " summaries\n",
                log->segments, log->summaries);
    emit_format(out, "writer     process %" PRIu64 " was the last\n", log->pid);
    if (j->n_events == 0) emit_text(out, "damaged    nothing\n");
    print_events(out, j);
    if (log->lost_end != 0) {
        emit_format(out, "cut        it was durable up to byte %" PRIu64 " once\n",
                    log->lost_end);
    }
    for (size_t i = 0; i < c->newest.count && i < INFO_NEWEST; i++) {
        const ms_info *info = &c->newest.items[i];
        const char *when = info->has_time ? time_text(info->last_time, text) : "-";
        emit_format(out, "%-10s %s %8" PRIu64 " messages  ", i == 0 ? "newest" : "", when,
                    info->messages);
        put_name(out, info->location);
    }
}

static void print_info(output *out, job *j, census *c)
{
    char first[TIME_MAX], last[TIME_MAX];
    bool all = GIVEN(j->options, ALL);
    if (j->log) print_log_info(out, j, c);
    emit_format(out, "messages   %" PRIu64 ", %" PRIu64 " bytes and %" PRIu64
                " of index\n", c->stat.messages, c->stat.bytes, c->stat.index_bytes);
    if (c->stat.changes > 0 || c->stat.hidden > 0) {
        emit_format(out, "changes    %" PRIu64 " records, %" PRIu64 " messages hidden\n",
                    c->stat.changes, c->stat.hidden);
    }
    if (c->timed == 0) emit_text(out, "times      none\n");
    else emit_format(out, "times      %s to %s, %" PRIu64 " messages without\n",
                     time_text(c->first, first), time_text(c->last, last),
                     c->stat.messages - c->timed);
    print_tally(out, "locations", &c->locations, all);
    print_tally(out, "agents", &c->agents, all);
    print_tally(out, "types", &c->types, all);
}

static void json_u64(ms_json_writer *w, const char *name, uint64_t value)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_u64(w, value);
}

static void json_time(ms_json_writer *w, const char *name, bool known, double value)
{
    ms_json_key(w, ms_str_of(name));
    if (known) ms_json_put_f64(w, value);
    else ms_json_put_null(w);
}

static void json_text(ms_json_writer *w, const char *name, ms_str value)
{
    ms_json_key(w, ms_str_of(name));
    if (value.ptr != NULL) ms_json_put_string(w, value);
    else ms_json_put_null(w);
}

static void json_tally(ms_json_writer *w, const char *name, tally *t, bool all)
{
    size_t n = tally_rank(t, all);
    ms_json_key(w, ms_str_of(name));
    ms_json_begin_object(w);
    json_u64(w, "count", t->used);
    ms_json_key(w, MS_STR("rows"));
    ms_json_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        ms_json_begin_object(w);
        json_text(w, "name", t->rows[i].text);
        json_u64(w, "messages", t->rows[i].count);
        json_u64(w, "bytes", t->rows[i].bytes);
        ms_json_end_object(w);
    }
    ms_json_end_array(w);
    ms_json_end_object(w);
}

static void json_events(ms_json_writer *w, const job *j)
{
    static const char *const kinds[] = {"damage", "torn", "sync", "index"};
    ms_json_key(w, MS_STR("events"));
    ms_json_begin_array(w);
    for (size_t i = 0; i < j->n_events; i++) {
        const ms_log_event *e = &j->events[i];
        ms_json_begin_object(w);
        json_text(w, "kind", ms_str_of((size_t)e->kind < 4 ? kinds[e->kind] : "other"));
        json_u64(w, "offset", e->offset);
        json_u64(w, "length", e->length);
        json_u64(w, "after_seq", e->after_seq);
        json_u64(w, "before_seq", e->before_seq);
        ms_json_end_object(w);
    }
    ms_json_end_array(w);
}

static void json_newest(ms_json_writer *w, const ms_listing *newest)
{
    ms_json_key(w, MS_STR("newest"));
    ms_json_begin_array(w);
    for (size_t i = 0; i < newest->count && i < INFO_NEWEST; i++) {
        const ms_info *info = &newest->items[i];
        ms_json_begin_object(w);
        json_text(w, "name", info->location);
        json_u64(w, "messages", info->messages);
        json_u64(w, "last_seq", info->last_seq);
        json_time(w, "last_time", info->has_time, info->last_time);
        ms_json_end_object(w);
    }
    ms_json_end_array(w);
}

static void json_log_info(ms_json_writer *w, job *j, const census *c)
{
    const ms_log_info *log = &c->log;
    ms_json_key(w, MS_STR("log"));
    ms_json_begin_object(w);
    json_text(w, "id", ms_str_of(c->id));
    json_time(w, "created", true, log->created);
    json_u64(w, "end", log->end);
    json_u64(w, "size", log->size);
    json_u64(w, "durable_end", log->durable_end);
    json_u64(w, "durable_seq", log->durable_seq);
    json_u64(w, "segments", log->segments);
    json_u64(w, "summaries", log->summaries);
    json_u64(w, "damaged", log->damaged);
    json_u64(w, "damaged_bytes", log->damaged_bytes);
    json_u64(w, "lost_end", log->lost_end);
    json_u64(w, "pid", log->pid);
    json_events(w, j);
    json_newest(w, &c->newest);
    ms_json_end_object(w);
    j->told = j->n_events;
}

#include "usage.h"

static int print_info_json(output *out, job *j, census *c)
{
    ms_json_writer w;
    int code = FINE;
    bool all = GIVEN(j->options, ALL), timed = c->timed > 0;
    ms_json_init(&w, emit, out, false);
    ms_json_begin_object(&w);
    json_u64(&w, "messages", c->stat.messages);
    json_u64(&w, "last_seq", c->stat.last_seq);
    json_u64(&w, "bytes", c->stat.bytes);
    json_u64(&w, "index_bytes", c->stat.index_bytes);
    json_u64(&w, "hidden", c->stat.hidden);
    json_u64(&w, "changes", c->stat.changes);
    json_time(&w, "first_time", timed, c->first);
    json_time(&w, "last_time", timed, c->last);
    json_u64(&w, "without_time", c->stat.messages - c->timed);
    if (j->log) json_log_info(&w, j, c);
    json_tally(&w, "locations", &c->locations, all);
    json_tally(&w, "agents", &c->agents, all);
    json_tally(&w, "types", &c->types, all);
    if (GIVEN(j->options, USAGE)) code = json_usage(&w, j);
    ms_json_end_object(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
    return code;
}

/* Figures of the log file. Damage is met while counting, so this comes after it. */
static int look_at_log(job *j, census *c)
{
    ms_error err;
    ms_list_query query = {0};
    query.limit = INFO_NEWEST;
    ms_result result = ms_log_stat(j->store, &c->log, &err);
    if (result == MS_OK) result = ms_list(j->store, &query, &j->arena, &c->newest, &err);
    if (result != MS_OK) return complain_of("counting", result, &err);
    for (size_t i = 0; i < sizeof c->log.id; i++) {
        snprintf(c->id + 2 * i, 3, "%02x", (unsigned)c->log.id[i]);
    }
    return c->log.lost_end != 0 ? DAMAGED : FINE;
}

static int run_info(job *j)
{
    output out = {stdout, 0};
    ms_error err;
    census c;
    memset(&c, 0, sizeof c);
    int code = open_stores(j, j->options->n_files);
    if (code != FINE) return code;
    code = count_messages(j->store, &c);
    int looked = j->log ? look_at_log(j, &c) : FINE, used = FINE;
    ms_result result = ms_store_stat(j->store, &c.stat, &err);
    if (code == FINE) code = looked;
    if (result != MS_OK) code = complain_of("counting", result, &err);
    if (GIVEN(j->options, JSON)) {
        used = print_info_json(&out, j, &c);
    } else {
        print_info(&out, j, &c);
        if (GIVEN(j->options, USAGE)) used = print_usage(&out, j);
    }
    if (code == FINE) code = used;
    tally_free(&c.locations);
    tally_free(&c.agents);
    tally_free(&c.types);
    return output_end(&out, code);
}


/* ---- msgstore import, msgstore append ---------------------------------------------- */

typedef struct importer {
    const options *options;
    ms_store *store;
    ms_arena arena;           /* of the object at hand */
    uint64_t newest;          /* sequence number in the store, */
    uint64_t last;            /* and that of the message at hand */
    uint64_t added, known;    /* messages: new ones, and those whose key was there */
    rescue rescue;
} importer;

/* Gives message i of an object a key that is the same whenever the file is imported. */
static bool set_key(importer *im, const taken *t, size_t i)
{
    ms_envelope *m = &t->list.items[i];
    ms_str id = m->id;
    char *text = ms_arena_alloc(&im->arena, MS_KEY_MAX + 1);
    if (m->key.ptr != NULL) return true;
    if (text == NULL) return false;
    bool fits = id.len > 0 && id.len < MS_KEY_MAX - 40 && ms_utf8_check(id, NULL) &&
                memchr(id.ptr, '\0', id.len) == NULL;
    int n = fits ? snprintf(text, MS_KEY_MAX, "id:%.*s", (int)id.len, id.ptr)
                 : snprintf(text, MS_KEY_MAX, "line:%" PRIu64 ":%016" PRIx64, t->number,
                            hash_text(t->json));
    if (i > 0) n += snprintf(text + n, 24, "#%zu", i + 1);
    m->key = ms_str_n(text, (size_t)n);
    return true;
}

static int import_take(void *ctx, const taken *t)
{
    importer *im = ctx;
    ms_arena_reset(&im->arena);
    uint64_t *seqs = ms_arena_alloc(&im->arena, t->list.count * sizeof *seqs);
    bool room = seqs != NULL;
    for (size_t i = 0; i < t->list.count && room && GIVEN(im->options, KEYS); i++) {
        room = set_key(im, t, i);
    }
    int code = room ? store_messages(im->store, t, seqs) : no_memory();
    for (size_t i = 0; i < t->list.count && code == FINE; i++) {
        bool known = seqs[i] <= im->newest;
        if (known) im->known++;
        else im->added++;
        if (!known) im->newest = seqs[i];
        im->last = seqs[i];
    }
    return code;
}

/* Before a log is made: are there messages to be had? */
static int check_files(const options *o)
{
    for (size_t i = 1; i < o->n_files; i++) {
        const char *path = o->files[i];
        if (strcmp(path, "-") != 0 && access(path, R_OK) != 0) {
            int code = errno == ENOENT ? NOT_FOUND : FAILED;
            complain("%s: %s", path, strerror(errno));
            return code;
        }
        if (!is_log(path)) continue;
        complain("%s: this is a log; msgstore export makes messages of it", path);
        return FAILED;
    }
    return FINE;
}

/* Opens, or makes, the log to append to. *newest: its last sequence number. */
static int open_to_append(job *j, bool keep_unset_times, uint64_t *newest)
{
    ms_error err;
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_CREATE;
    desc.sync = j->options->sync == SYNC_EACH ? MS_SYNC_EACH : MS_SYNC_NONE;
    desc.keep_unset_times = keep_unset_times;
    set_writing(j->options, &desc);
    j->appends = true;
    int code = open_log(j, j->options->files[0], &desc);
    if (code != FINE) return code;
    ms_result result = ms_refresh(j->store, newest, &err);
    return result == MS_OK ? FINE : complain_of("reading the log", result, &err);
}

static int print_import(const importer *im, int code)
{
    output out = {stdout, 0};
    const rescue *lost = &im->rescue;
    emit_format(&out, "appended   %" PRIu64 " messages, the last is number %" PRIu64 "\n",
                im->added, im->newest);
    if (GIVEN(im->options, KEYS)) {
        emit_format(&out, "known      %" PRIu64 " messages were there already\n",
                    im->known);
    }
    if (GIVEN(im->options, KEEP_GOING)) {
        emit_format(&out, "skipped    %" PRIu64 " places in %" PRIu64 " lines, %" PRIu64
                    " bytes\n", lost->places, lost->lines, lost->bytes);
        emit_format(&out, "repaired   %" PRIu64 " with bad UTF-8\n", lost->repaired);
        if (code == FINE && lost->places + lost->repaired > 0) code = DAMAGED;
    }
    return output_end(&out, code);
}

static int run_import(job *j)
{
    importer im;
    ms_error err;
    const options *o = j->options;
    bool going = GIVEN(o, KEEP_GOING);
    sink to = {import_take, &im, true, true, false, going ? &im.rescue : NULL};
    memset(&im, 0, sizeof im);
    int code = check_files(o);
    if (code == FINE) code = open_to_append(j, true, &im.newest);
    if (code != FINE) return code;
    im.options = o;
    im.store = j->store;
    for (size_t i = 1; i < o->n_files && code == FINE; i++) {
        code = read_input(o, o->files[i], &to);
    }
    if (o->sync != SYNC_NONE) {
        ms_result result = ms_sync(j->store, NULL, &err);
        if (result != MS_OK) code = complain_of("syncing", result, &err);
    }
    ms_arena_deinit(&im.arena);
    return print_import(&im, code);
}

/* Appends, then tells the number: whoever reads it knows that the message is stored. */
static int append_take(void *ctx, const taken *t)
{
    importer *im = ctx;
    ms_str location = ms_str_of(im->options->location);
    for (size_t i = 0; i < t->list.count; i++) {
        ms_envelope *m = &t->list.items[i];
        if (m->location.ptr == NULL) m->location = location;
        if (m->location.ptr != NULL) continue;
        return complain_at(t->source, t->at, "this message has no location: ",
                           "the member \"location\", or --location, was expected");
    }
    int code = import_take(ctx, t);
    if (code != FINE) return code;
    output out = {stdout, 0};
    emit_format(&out, "%" PRIu64 "\n", im->last);
    return output_end(&out, FINE);
}

static int run_append(job *j)
{
    importer im;
    sink to = {append_take, &im, true, false, true, NULL};
    memset(&im, 0, sizeof im);
    if (j->options->sync == SYNC_END) {
        complain("append --sync expects none or each, not end");
        return USAGE;
    }
    int code = open_to_append(j, false, &im.newest);
    im.options = j->options;
    im.store = j->store;
    if (code == FINE) code = read_input(j->options, "-", &to);
    ms_arena_deinit(&im.arena);
    return code;
}


/* ---- msgstore follow --------------------------------------------------------------- */

enum { FOLLOW_NEWEST = 10, FOLLOW_MS = 100 };

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

typedef struct follower {
    job *job;
    output out;
    table table;
    ms_writer writer;
    ms_arena arena;           /* of the writer */
    struct stat file;         /* the one that is open */
    uint64_t last;            /* everything up to here was looked at */
    uint64_t mark;            /* changes behind this message were looked at, */
    size_t marked;            /* so many of them */
    uint64_t *writing;        /* messages that were not finished when they came */
    size_t n_writing, cap_writing;
    int code;                 /* DAMAGED when something could not be read */
} follower;

/* In a message format each is printed when it is whole: of one that is being written only
 * the number is kept. */
static int follow_later(follower *f, uint64_t seq)
{
    if (f->n_writing == f->cap_writing) {
        size_t cap = f->cap_writing > 0 ? 2 * f->cap_writing : 16;
        uint64_t *writing = realloc(f->writing, cap * sizeof *writing);
        if (writing == NULL) return no_memory();
        f->writing = writing;
        f->cap_writing = cap;
    }
    f->writing[f->n_writing++] = seq;
    return FINE;
}

/* Was it one of those? Then it is none any more. */
static bool follow_ended(follower *f, uint64_t seq)
{
    for (size_t i = 0; i < f->n_writing; i++) {
        if (f->writing[i] != seq) continue;
        f->writing[i] = f->writing[--f->n_writing];
        return true;
    }
    return false;
}

static void follow_row(follower *f, const ms_msg *msg)
{
    if (GIVEN(f->job->options, RAW)) raw_fit(&f->table, msg);
    else table_fit(&f->table, msg);
    table_fill(&f->table);
    if (GIVEN(f->job->options, RAW)) raw_row(&f->table, msg, &f->out);
    else print_row(&f->table, msg, &f->out);
}

static int follow_print(follower *f, const ms_msg *msg)
{
    ms_error err;
    const options *o = f->job->options;
    if (GIVEN(o, JSON)) raw_line(msg, &f->out);
    else if (o->to == NULL) follow_row(f, msg);
    if (o->to == NULL) return FINE;
    ms_result result = ms_writer_put_msg(&f->writer, msg, &err);
    if (result == MS_OK || f->out.error != 0) return FINE;
    return complain_of("writing", result, &err);
}

/* The end of what was read with a cursor; all of it is printed then. */
static int follow_end(follower *f, ms_cursor *it, int code)
{
    ms_error err;
    ms_result result = MS_OK;
    if (f->job->options->to != NULL) result = ms_writer_finish(&f->writer, &err);
    if (result != MS_OK && code == FINE && f->out.error == 0) {
        code = complain_of("writing", result, &err);
    }
    int closed = listing_close(it);
    if (closed == DAMAGED) f->code = DAMAGED;
    complain_of_events(f->job);
    if (code == FINE && closed != DAMAGED) code = closed;
    return output_end(&f->out, code);
}

/* Prints what the query gives, each message whole. */
static int follow_query(follower *f, const ms_query *q)
{
    ms_cursor it;
    const ms_msg *msg;
    listing l = {f->job->store, q, NULL, NULL, NULL};
    bool whole = f->job->options->to != NULL;
    ms_arena_reset(&f->job->arena);
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        bool later = whole && (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
        code = later ? follow_later(f, ms_seq(msg)) : follow_print(f, msg);
    }
    return follow_end(f, &it, code);
}

/* A change of a message that was shown: the message as it is now, or what was hidden. */
static int follow_change(follower *f, const ms_query *q, const ms_msg *change)
{
    const ms_msg *msg;
    job *j = f->job;
    uint64_t seq = ms_seq(change);
    bool format = j->options->to != NULL;
    if (ms_kind_of(change) == MS_KIND_HIDE && !format) return follow_print(f, change);
    if (ms_kind_of(change) != MS_KIND_AMEND || seq > f->last) return FINE;
    if (format && !follow_ended(f, seq)) return FINE;
    ms_arena_reset(&j->arena);
    if (ms_get_by_seq(j->store, seq, &j->arena, &msg, NULL) != MS_OK) return FINE;
    return ms_query_match(q, msg) ? follow_print(f, msg) : FINE;
}

/* Shows what was done since the last time to messages that were shown; with --raw every
 * record that came. Silent: only remembers where they are. */
static int follow_changes(follower *f, const ms_query *q, bool silent)
{
    ms_cursor it;
    const ms_msg *msg;
    bool raw = GIVEN(f->job->options, RAW);
    size_t at = 0;
    ms_query records = {0};
    listing l = {f->job->store, &records, NULL, NULL, NULL};
    records.location = q->location;
    records.after_seq = f->mark;
    records.raw = raw ? MS_RAW_ALL : MS_RAW_MESSAGES | MS_RAW_AMENDS | MS_RAW_HIDES;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        bool message = ms_kind_of(msg) == MS_KIND_MESSAGE;
        if (message) {
            f->mark = ms_seq(msg);
            f->marked = at = 0;
        } else if (at++ < f->marked) {
            continue;
        } else {
            f->marked = at;
        }
        if (silent) continue;
        code = raw ? follow_print(f, msg) : message ? FINE : follow_change(f, q, msg);
    }
    return follow_end(f, &it, code);
}

/* Another file has taken the log's place (a compaction): goes on with that one. */
static int follow_file(follower *f)
{
    struct stat now;
    job *j = f->job;
    if (stat(j->options->files[0], &now) != 0) return FINE;
    if (now.st_ino == f->file.st_ino && now.st_dev == f->file.st_dev) return FINE;
    f->file = now;
    f->mark = f->last;
    f->marked = 0;
    ms_close(j->store);
    j->store = NULL;
    return open_to_read(j);
}

/* What came since the last time, or after a pause nothing. */
static int follow_on(follower *f, ms_query *q, double left)
{
    ms_error err;
    uint64_t newest;
    uint32_t pause = left * 1e3 < FOLLOW_MS ? (uint32_t)(left * 1e3) : FOLLOW_MS;
    ms_result result = ms_wait(f->job->store, f->last, pause, &newest, &err);
    if (result != MS_OK) return complain_of("waiting", result, &err);
    int code = follow_changes(f, q, false);
    if (code != FINE) return code;
    if (newest <= f->last) return follow_file(f);
    q->after_seq = f->last;
    q->before_seq = newest + 1;
    f->last = newest;
    return GIVEN(f->job->options, RAW) ? FINE : follow_query(f, q);
}

/* Begins with the newest messages (with --raw, records), or behind the one that was
 * named. */
static int follow_begin(follower *f, ms_query *q)
{
    ms_error err;
    const options *o = f->job->options;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION), false};
    ms_writer_init(&f->writer, o->to, &opts, &f->arena, emit, &f->out);
    f->table = new_table(NULL);
    f->table.located = o->location == NULL;
    f->last = f->mark = o->after;
    if (GIVEN(o, AFTER)) return FINE;
    ms_result result = ms_refresh(f->job->store, &f->last, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    f->mark = f->last;
    int code = follow_changes(f, q, true);
    if (code != FINE || (f->last == 0 && f->marked == 0)) return code;
    listing l = {f->job->store, q, NULL, &f->job->arena, NULL};
    q->limit = GIVEN(o, LIMIT) ? o->limit : FOLLOW_NEWEST;
    if (GIVEN(o, RAW)) {
        q->raw = MS_RAW_ALL;
        q->arena = NULL;
        code = GIVEN(o, JSON) ? FINE : raw_measure(&l, &f->table);
    } else {
        q->before_seq = f->last + 1;
        code = o->to == NULL ? table_measure(&l, &f->table) : FINE;
    }
    f->table.located = o->location == NULL;
    return code == FINE ? follow_query(f, q) : code;
}

static int run_follow(job *j)
{
    follower f;
    struct sigaction act;
    const options *o = j->options;
    double end = clock_seconds() + (GIVEN(o, SECONDS) ? o->seconds : 1e12);
    memset(&f, 0, sizeof f);
    memset(&act, 0, sizeof act);
    act.sa_handler = stop;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    f.job = j;
    f.out.file = stdout;
    stat(o->files[0], &f.file);
    int code = check_raw("follow", o);
    if (code == FINE) code = open_to_read(j);
    if (code != FINE) return code;
    ms_query q = query_of(o, &j->arena);
    q.location = ms_str_of(o->location);
    code = follow_begin(&f, &q);
    q.limit = 0;
    while (code == FINE && !stopped) {
        double left = end - clock_seconds();
        if (left <= 0) break;
        code = follow_on(&f, &q, left);
    }
    ms_arena_deinit(&f.arena);
    free(f.writing);
    return code != FINE ? code : f.code;
}


/* ---- msgstore verify, msgstore repair, msgstore compact ---------------------------- */

static void print_event(void *ctx, const ms_log_event *event)
{
    char text[EVENT_TEXT];
    emit_format(ctx, "%s\n", event_text(event, text));
}

static int run_verify(job *j)
{
    output out = {stdout, 0};
    ms_error err;
    ms_log_report r = {0};
    ms_log_desc desc = {0};
    desc.path = j->options->files[0];
    desc.events.event = print_event;
    desc.events.ctx = &out;
    ms_result result = ms_log_verify(&desc, &r, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) {
        return complain_of(NULL, result, &err);
    }
    emit_format(&out, "bytes      %" PRIu64 " looked at, in use up to %" PRIu64 "\n",
                r.bytes, r.end);
    emit_format(&out, "messages   %" PRIu64 " whole, the last is number %" PRIu64 "\n",
                r.messages, r.last_seq);
    emit_format(&out, "others     %" PRIu64 " index records, %" PRIu64
                " more\n", r.index_records, r.other_records);
    emit_format(&out, "torn       %" PRIu64 " bytes behind the last whole append\n",
                r.torn_bytes);
    emit_format(&out, "unreadable %" PRIu64 " ranges, %" PRIu64 " bytes; %" PRIu64
                " index records\n", r.damaged, r.damaged_bytes, r.index_damaged);
    emit_format(&out, "verdict    %s\n", result == MS_OK ? "whole" : err.message);
    return output_end(&out, exit_code(result));
}

/* "copied ... dropped ...": what was, or on a dry run would be, taken over. */
static void print_copy(output *out, const ms_copy_report *r)
{
    emit_format(out, "copied     %" PRIu64 " messages, %" PRIu64 " bytes of records\n",
                r->copied, r->bytes);
    emit_format(out, "dropped    %" PRIu64 " messages\n", r->dropped);
    emit_format(out, "lost       %" PRIu64 " records that cannot be read\n", r->damaged);
    if (r->notes > 0) emit_format(out, "notes      %" PRIu64 "\n", r->notes);
}

static uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Writes what is to be kept of the open log into the file `path` (NULL on a dry run), and
 * reports. */
static int rewrite_into(job *j, const char *path, const ms_keep *keep)
{
    output out = {stdout, 0};
    ms_error err;
    ms_copy_report report = {0};
    ms_log_info info;
    ms_log_desc to = {0};
    const options *o = j->options;
    uint64_t before = file_size(o->files[0]);
    to.path = path;
    to.lock_wait_ms = o->wait_ms;
    ms_result result = ms_log_rewrite(j->store, path != NULL ? &to : NULL,
                                      GIVEN(o, REPLACE), keep, &report, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) {
        return complain_of(NULL, result, &err);
    }
    int code = exit_code(result);
    print_copy(&out, &report);
    if (ms_log_stat(j->store, &info, NULL) == MS_OK && info.lost_end != 0) {
        emit_format(&out, "cut        %s was durable up to byte %" PRIu64 " once\n",
                    "the log", info.lost_end);
        code = DAMAGED;
    }
    print_events(&out, j);
    if (keep->dry_run) {
        emit_format(&out, "file       %" PRIu64 " bytes; a dry run writes nothing\n",
                    before);
    } else {
        emit_format(&out, "file       %" PRIu64 " bytes before, %" PRIu64 " after\n",
                    before, file_size(path));
    }
    return output_end(&out, code);
}

/* The second argument is where to; a link stays: the file that it names is written. */
static int rewrite(job *j, const ms_keep *keep)
{
    const options *o = j->options;
    const char *path = o->n_files > 1 ? o->files[1] : NULL;
    char *real = path != NULL ? realpath(path, NULL) : NULL;
    int code = rewrite_into(j, real != NULL ? real : path, keep);
    free(real);
    return code;
}

static int run_repair(job *j)
{
    ms_keep all = {0};
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_READ;
    desc.opening = MS_OPEN_SALVAGE;
    int code = open_log(j, j->options->files[0], &desc);
    return code == FINE ? rewrite(j, &all) : code;
}

/* Are these two names of one file? */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static int run_compact(job *j)
{
    ms_keep keep = {0};
    ms_log_desc desc = {0};
    const options *o = j->options;
    keep.newest = o->keep_last;
    keep.has_since = GIVEN(o, SINCE);
    keep.since = o->since;
    keep.locations = o->locations;
    keep.n_locations = o->n_locations;
    keep.dry_run = GIVEN(o, DRY_RUN);
    if (o->n_files < 2 && !keep.dry_run) {
        complain("compact needs a second file, OUT, or --dry-run");
        return USAGE;
    }
    bool in_place = !keep.dry_run && GIVEN(o, REPLACE) &&
                    is_same_file(o->files[0], o->files[1]);
    desc.mode = in_place ? MS_LOG_WRITE : MS_LOG_READ; /* nobody else writes meanwhile */
    desc.lock_wait_ms = o->wait_ms;
    int code = open_log(j, o->files[0], &desc);
    return code == FINE ? rewrite(j, &keep) : code;
}


#include "changes.h"


/* ---- Options, help, main ----------------------------------------------------------- */

enum { OPT_FIRST = 256 }; /* getopt's value of the first option: none is a character */

static const struct option long_options[] = {
#define X(name, word, argument) {word, argument, NULL, OPT_FIRST + OPT_##name},
    OPTIONS(X)
#undef X
    {NULL, 0, NULL, 0},
};

typedef struct command {
    const char *name;
    int (*run)(job *j);
    bool store;               /* the first argument is a STORE, which run() gets opened */
    size_t least, most;       /* arguments; of one that may be left out, "-" is meant */
    const char *arguments;    /* what is missing when there are too few */
    uint64_t takes, needs;    /* options */
    const char *help;
} command;

#define ANY_NUMBER SIZE_MAX
#define INPUT_OPTIONS                                                                    \
    (BIT(HELP) | BIT(LOCATION) | BIT(AGENT) | BIT(FROM) | BIT(LENIENT))
#define PRINT_OPTIONS (BIT(FORMAT) | BIT(WITH_LOCATION) | BIT(LIMIT))

#define INPUT_HELP                                                                       \
    "  --from FORMAT    the input's format; without it each message is looked at\n"      \
    "  --lenient        keep unknown types and odd members instead of refusing them\n"
#define VIEW_HELP                                                                        \
    "  --team A,B       everything that these agents wrote\n"                            \
    "  --global         broadcasts: global_observation, synthesis\n"                     \
    "  --timeline       everything (the default)\n"
#define WHEN_HELP                                                                        \
    "  --turn T         only this turn\n"                                                \
    "  --since T        only from T on: seconds since 1970, 2026-03-02, or\n"            \
    "                   2026-03-02T09:30:00Z (UTC)\n"                                    \
    "  --until T        only before T\n"
#define WRITE_OPTIONS (BIT(HELP) | BIT(WAIT) | BIT(SHARED))
#define WRITE_HELP                                                                       \
    "  --wait MS        wait so long when somebody else writes\n"                        \
    "  --shared         write beside others that do, too: each append takes its turn\n"
#define JOIN_HELP                                                                        \
    "Several STOREs are read as one, in order of time: 2:17 is message 17 of the\n"      \
    "second.\n"
#define PRINT_HELP                                                                       \
    "  --format F       table (the default), or a message format\n"                      \
    "  --with-location  with a message format: write location and agent_key, too\n"

static const command commands[] = {
    {"convert", run_convert, false, 0, 1, "",
     INPUT_OPTIONS | BIT(TO) | BIT(ARRAY) | BIT(WITH_LOCATION), BIT(TO),
     "examples:\n"
     "  msgstore convert --from openai --to framework chat.jsonl\n"
     "  msgstore convert --to openai --array <trace.jsonl >messages.json\n"
     "\n"
     "usage: msgstore convert [OPTION...] --to FORMAT [FILE|-]\n"
     "Messages in, the same messages out in another format, in order, one a line. FILE\n"
     "may also be a log: see msgstore export -h.\n"
     "\n"
     "  --to FORMAT      the output's format\n"
     INPUT_HELP
     "  --array          one array instead of lines; all or nothing\n"
     "  --with-location  write the members location and agent_key, too\n"
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"},
    {"view", run_view, false, 1, ANY_NUMBER, "a STORE",
     INPUT_OPTIONS | PRINT_OPTIONS | VIEW_OPTIONS | BIT(OLDEST) | BIT(RAW) | BIT(JSON) |
     BIT(BY_STORE), 0,
     "examples:\n"
     "  msgstore view trace.jsonl -n 20\n"
     "  msgstore view trace.log --location job_42 --agent worker --since 2026-03-02\n"
     "  msgstore view trace.jsonl --team worker,writer --format openai\n"
     "  msgstore view trace.log --raw\n"
     "\n"
     "usage: msgstore view [OPTION...] STORE...\n"
     "Shows messages: all, or the views that are named, together. A type with a * was\n"
     "amended, one with a ~ is being written (or its writer died).\n"
     JOIN_HELP
     "\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did: task, action, observation, error, final,\n"
     "                   delegation; A is also the agent of those that have none\n"
     VIEW_HELP
     "  --location L     only this location, and that of messages that have none\n"
     WHEN_HELP
     "  -n, --limit N    the newest N; with --oldest the oldest N\n"
     "  --raw            every record as it stands, with its kind: messages, hidden\n"
     "                   ones too, what amends and hides them, notes, facts of\n"
     "                   locations, pieces of streams; --turn and times then choose\n"
     "                   among messages only\n"
     "  --json           with --raw: an object a line\n"
     "  --by-store       of several: one after the other, not in order of time\n"
     PRINT_HELP INPUT_HELP},
    {"search", run_search, false, 2, ANY_NUMBER, "a STORE and a TEXT",
     INPUT_OPTIONS | PRINT_OPTIONS | VIEW_OPTIONS | BIT(OLDEST) | BIT(ALL) |
     BIT(FIELDS) | BIT(EXACT) | BIT(BY_STORE), 0,
     "examples:\n"
     "  msgstore search trace.log 'rate limit' -n 20\n"
     "  msgstore search one.log two.log timeout --agent worker --all\n"
     "\n"
     "usage: msgstore search [OPTION...] STORE... TEXT\n"
     "Shows the messages that have the TEXT, newest first, with what stands around it:\n"
     "in content, tool, arguments, task, summary and type of error. ASCII letters match\n"
     "in both cases. In JSON it is found as it is spelled, and as its strings read.\n"
     "Exit code 1: nothing was found.\n"
     JOIN_HELP
     "\n"
     "  --exact-case     letters match in their own case only\n"
     "  --all-fields     look into all fields: names, ids and other members, too\n"
     "  --all            a row for each place, not for each message\n"
     "  -n, --limit N    stop after N messages\n"
     "  --oldest         oldest first\n"
     "  --by-store       of several: one after the other, not in order of time\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did; also the agent of traces that have none\n"
     VIEW_HELP
     "  --location L     only this location, and that of messages that have none\n"
     WHEN_HELP PRINT_HELP INPUT_HELP},
    {"diff", run_diff, false, 2, 2, "two STOREs",
     INPUT_OPTIONS | VIEW_OPTIONS | BIT(ALSO), 0,
     "examples:\n"
     "  msgstore diff monday.log tuesday.log --agent worker\n"
     "  msgstore diff trace.log trace.log --location job_42 --location job_42.fork\n"
     "\n"
     "usage: msgstore diff [OPTION...] A B\n"
     "Compares two runs, message by message, and tells the first difference: the place,\n"
     "the field, and both values around it. JSON is compared by what it says. Without\n"
     "--also, times, numbers of messages, and ids (location, turn, id, key, call_id)\n"
     "are not compared, nor members that no field stands for. Exit code 0: equal; 1:\n"
     "different; 2: a store that cannot be read.\n"
     "\n"
     "  --also WORDS     compare these, too: times, ids, numbers, rest; with commas\n"
     "                   between them. rest: members that no field stands for\n"
     "  --location L     only this location; given again: that is the one of B\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did; also the agent of traces that have none\n"
     VIEW_HELP WHEN_HELP INPUT_HELP},
    {"history", run_history, false, 1, 2, "a STORE",
     INPUT_OPTIONS | PRINT_OPTIONS | BIT(TEAM) | BIT(TIMELINE) | BIT(SCOPE) |
     BIT(PHASE) | BIT(BUDGET) | BIT(REPORT) | BIT(STEP) | BIT(SYSTEM), 0,
     "examples:\n"
     "  msgstore history trace.log job_42 --format anthropic -n 40 >request.json\n"
     "  msgstore history trace.log --format openai --budget 8000 --report\n"
     "  msgstore history trace.jsonl --agent manager --team worker,writer\n"
     "\n"
     "usage: msgstore history [OPTION...] STORE [LOCATION] --format PROVIDER\n"
     "       msgstore history [OPTION...] STORE [LOCATION] --agent A\n"
     "The first prints everything of a location as the body of a request that the\n"
     "provider does not refuse, on one line. The second shows what an agent reads\n"
     "before its next step: the conversation, its own trace, its team's, the\n"
     "broadcasts.\n"
     "\n"
     "  --format F       a provider; or table, or another message format, a line each\n"
     "  --agent A        who reads: in a request, what others did is told as user text;\n"
     "                   also the agent of traces that have none\n"
     "  --location L     the same as LOCATION, and that of messages that have none;\n"
     "                   one of them is needed when there are several\n"
     "in a request:\n"
     "  -n, --limit N    the newest N messages, never less than the newest turn\n"
     "  --budget N       the newest N tokens, by estimate; with -n both hold\n"
     "  --step K         the window moves on by K (messages, or with --budget tokens)\n"
     "                   at a time, so that requests begin alike for a while\n"
     "  --system TEXT    a system prompt in front\n"
     "  --report         tell on standard error what was changed\n"
     "in a list, also in a provider's format:\n"
     "  --team A,B       the agents under it\n"
     "  --timeline       in one order instead of block after block\n"
     "  --scope S        less: orchestrator (the end of the conversation), manager (the\n"
     "                   synthesis of the phase before), worker (since its last task)\n"
     "  --phase N        for --scope manager: the phase that runs now\n"
     "  -n, --limit N    the newest N of each block; with --timeline, of all\n"
     "  --with-location  with a message format: write location and agent_key, too\n"
     INPUT_HELP},
    {"lookup", run_lookup, true, 2, 2, "a STORE and a KEY",
     INPUT_OPTIONS | BIT(USER) | BIT(FORMAT) | BIT(WITH_LOCATION), 0,
     "examples:\n"
     "  msgstore lookup trace.log session-abc-msg-5 --user ann\n"
     "  msgstore lookup trace.log session-job_42-msg-0 --format framework\n"
     "\n"
     "usage: msgstore lookup [OPTION...] STORE KEY\n"
     "Prints the original of a shortened message: the text that the KEY in its hint\n"
     "names. Without --user session-L-msg-N is message N, from 0, of location L. Exit\n"
     "code 1: there is no such message.\n"
     "\n"
     "  --user U         the user whose session it is\n"
     "  --format F       the whole message in a message format\n"
     "  --with-location  with a message format: write location and agent_key, too\n"
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
    {"check", run_check, false, 0, ANY_NUMBER, "", BIT(HELP) | BIT(AS), BIT(AS),
     "examples:\n"
     "  msgstore check --as anthropic request.json\n"
     "  msgstore history trace.log --format openai | msgstore check --as openai -\n"
     "\n"
     "usage: msgstore check --as PROVIDER [FILE|-]...\n"
     "Tells what the provider would refuse in a list of messages, a line each. A FILE\n"
     "holds the body of a request, a list of messages, or a message a line. Nothing is\n"
     "printed when all is fine. Exit code 0: fine; 1: something would be refused; 2: a\n"
     "file that cannot be read, or is no JSON.\n"
     "\n"
     "  --as PROVIDER    whose rules\n"},
    {"info", run_info, false, 1, ANY_NUMBER, "a STORE",
     INPUT_OPTIONS | BIT(ALL) | BIT(JSON) | BIT(USAGE), 0,
     "examples:\n"
     "  msgstore info trace.log\n"
     "  msgstore info --all --json trace.jsonl\n"
     "  msgstore info trace.log --usage\n"
     "\n"
     "usage: msgstore info [OPTION...] STORE...\n"
     "Counts messages by location, agent and type, most first. Of a log it also tells\n"
     "what is in use, durable, indexed and damaged, who wrote last, and where to.\n"
     "Several STOREs are counted as one.\n"
     "\n"
     "  --usage          what it cost, by location, agent and turn: usage notes of\n"
     "                   messages added up (see msgstore note -h), but of hidden ones\n"
     "  --all            all rows instead of the first 20\n"
     "  --json           one JSON object\n"
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
    {"import", run_import, false, 2, ANY_NUMBER, "a STORE and a FILE",
     INPUT_OPTIONS | WRITE_OPTIONS | BIT(SYNC) | BIT(KEYS) | BIT(KEEP_GOING), 0,
     "examples:\n"
     "  msgstore import trace.log trace.jsonl\n"
     "  msgstore import --keys --keep-going trace.log part-*.jsonl\n"
     "\n"
     "usage: msgstore import [OPTION...] STORE FILE...\n"
     "Appends the messages of files to a log, which is made when it is not there. A\n"
     "message is taken whole or not at all; one without a time stays without.\n"
     "\n"
     "  --keys           messages get keys made of their own id, or of their text and\n"
     "                   number in the file: imported again, a file adds what is new\n"
     "  --keep-going     for damaged JSON Lines: skip what cannot be read, take what is\n"
     "                   whole, tell each place on standard error; exit code 3\n"
     "  --sync S         end: one sync behind the last message (the default); each: one\n"
     "                   for every message; none\n"
     WRITE_HELP
     "  --location L     the location of messages that have none\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
    {"append", run_append, false, 1, 1, "a STORE",
     INPUT_OPTIONS | WRITE_OPTIONS | BIT(SYNC), 0,
     "examples:\n"
     "  agent | msgstore append trace.log --location job_42\n"
     "  agent | msgstore append trace.log --sync each >acknowledged\n"
     "\n"
     "usage: msgstore append [OPTION...] STORE <MESSAGES\n"
     "Appends messages from standard input, a JSON object a line, to a log, which is\n"
     "made when it is not there. For each it prints its number once it is stored: from\n"
     "then on the death of the process does not take it, with --sync each no power cut.\n"
     "Of an object that becomes several messages it is the number of the last. A bad\n"
     "line ends it; what was before stays. A message without a time gets the present.\n"
     "\n"
     "  --location L     the location of messages that have none\n"
     "  --sync S         none (the default), or each: what is printed is durable\n"
     WRITE_HELP
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
    {"follow", run_follow, false, 1, 1, "a STORE",
     PRINT_OPTIONS | VIEW_OPTIONS | BIT(HELP) | BIT(LOCATION) | BIT(AGENT) |
     BIT(AFTER) | BIT(SECONDS) | BIT(RAW) | BIT(JSON), 0,
     "examples:\n"
     "  msgstore follow trace.log --agent worker\n"
     "  msgstore follow trace.log --raw\n"
     "  msgstore follow trace.log --after 120 --format framework --seconds 60\n"
     "\n"
     "usage: msgstore follow [OPTION...] STORE\n"
     "Shows the newest messages of a log, then those that come, until interrupted. A\n"
     "message that is amended meanwhile is shown again, with a * behind its type; one\n"
     "that is being written when it begins, with a ~, and when it ends. In a message\n"
     "format each is written once, when it is whole.\n"
     "\n"
     "  -n, --limit N    begin with the newest N (10); 0: with all\n"
     "  --after N        begin behind message number N instead\n"
     "  --seconds S      stop after S seconds\n"
     "  --raw            every record that comes, as view --raw shows it: pieces of\n"
     "                   messages that are being written, too\n"
     "  --json           with --raw: an object a line\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did\n"
     VIEW_HELP
     "  --location L     only this location\n"
     WHEN_HELP PRINT_HELP},
    {"export", run_export, true, 1, 1, "a STORE",
     INPUT_OPTIONS | BIT(FORMAT) | BIT(WITH_LOCATION) | BIT(ARRAY), 0,
     "examples:\n"
     "  msgstore export trace.log >trace.jsonl\n"
     "  msgstore export trace.log --location job_42 --format openai\n"
     "\n"
     "usage: msgstore export [OPTION...] STORE\n"
     "Writes all messages, one a line, as they came; in chat formats, which do not say\n"
     "whose they are, conversation after conversation. msgstore import reads it back\n"
     "(with --lenient also types that the framework format has no word for).\n"
     "\n"
     "  --format F       a message format; without it framework with location\n"
     "  --location L     only this location; may be given several times\n"
     "  --with-location  write the members location and agent_key in other formats, too\n"
     "  --array          one array instead of lines; all or nothing\n"
     "  --agent A        the agent of tasks, calls, results and plans that have none\n"
     INPUT_HELP},
    {"amend", run_amend, false, 2, 3, "a STORE and a NUMBER",
     WRITE_OPTIONS | BIT(JSON) | BIT(FROM) | BIT(LENIENT), 0,
     "examples:\n"
     "  msgstore amend trace.log 17 'List the tables of 2026'\n"
     "  msgstore amend trace.log 18 '{\"limit\":10}'\n"
     "  msgstore amend trace.log 19 --json <result.json\n"
     "\n"
     "usage: msgstore amend [OPTION...] STORE NUMBER [TEXT|-]\n"
     "Replaces what a message says; its number and its place in every view stay. TEXT\n"
     "is the content, of an action its arguments, of a delegation its task; without it,\n"
     "it is read from standard input.\n"
     "\n"
     "  --json           TEXT is JSON\n"
     "  --from FORMAT    TEXT is a whole message in this format, of the same type\n"
     "  --lenient        keep odd members of it instead of refusing them\n"
     WRITE_HELP},
    {"hide", run_hide, false, 2, ANY_NUMBER, "a STORE and a NUMBER",
     WRITE_OPTIONS | BIT(LOCATION), 0,
     "examples:\n"
     "  msgstore hide trace.log 17\n"
     "  msgstore hide trace.log 17 20-29 --location job_42\n"
     "\n"
     "usage: msgstore hide [OPTION...] STORE NUMBER|FIRST-LAST...\n"
     "Takes messages out of every view. They stay in the file, where view --raw shows\n"
     "them, until msgstore compact.\n"
     "\n"
     "  --location L     whose messages a range hides, when there are several locations\n"
     WRITE_HELP},
    {"rewind", run_rewind, false, 2, 2, "a STORE and a NUMBER",
     WRITE_OPTIONS | BIT(LOCATION) | BIT(DRY_RUN), 0,
     "examples:\n"
     "  msgstore rewind trace.log --location job_42 17\n"
     "  msgstore rewind trace.log --location job_42 0\n"
     "\n"
     "usage: msgstore rewind [OPTION...] STORE NUMBER\n"
     "Goes back to a message of a location: hides everything behind it. 0 hides all.\n"
     "\n"
     "  --location L     which location, when there are several\n"
     "  --dry-run        only tell how many it would hide\n"
     WRITE_HELP},
    {"fork", run_fork, false, 4, 4, "a STORE, FROM, a NUMBER and TO", WRITE_OPTIONS, 0,
     "examples:\n"
     "  msgstore fork trace.log job_42 17 job_42.second\n"
     "\n"
     "usage: msgstore fork [OPTION...] STORE FROM NUMBER TO\n"
     "Gives the new location TO what FROM shows up to a message, with new numbers. The\n"
     "facts of TO say where it comes from. What is done to one is not seen in the\n"
     "other.\n"
     "\n"
     WRITE_HELP},
    {"note", run_note, false, 2, 4, "a STORE and a NUMBER",
     WRITE_OPTIONS | BIT(JSON), 0,
     "examples:\n"
     "  msgstore note trace.log 17 rating 5 --json\n"
     "  msgstore note trace.log 17 usage '{\"input_tokens\":900}' --json\n"
     "  msgstore note trace.log 17\n"
     "\n"
     "usage: msgstore note [OPTION...] STORE NUMBER [KIND [VALUE|-]]\n"
     "Attaches a value to a message. Without VALUE it is true, - reads it from standard\n"
     "input; without KIND the notes of the message are shown. msgstore info --usage\n"
     "adds up those of the kind usage: their members input_tokens, output_tokens,\n"
     "cached_tokens, reasoning_tokens and seconds.\n"
     "\n"
     "  --json           VALUE is JSON; without KIND: an object a line\n"
     WRITE_HELP},
    {"location", run_location, false, 2, 3, "a STORE and a LOCATION", WRITE_OPTIONS, 0,
     "examples:\n"
     "  msgstore location trace.log job_42\n"
     "  msgstore location trace.log job_42 '{\"title\":\"Tables\",\"model\":null}'\n"
     "\n"
     "usage: msgstore location [OPTION...] STORE LOCATION [FACTS|-]\n"
     "Prints what is known about a location, a JSON object; or sets the members of\n"
     "FACTS, of which null removes one. - reads them from standard input.\n"
     "\n"
     WRITE_HELP},
    {"redact", run_redact, false, 1, ANY_NUMBER, "a STORE",
     WRITE_OPTIONS | VIEW_OPTIONS | BIT(AGENT) | BIT(LOCATION) | BIT(LIMIT) |
     BIT(OLDEST) | BIT(RAW) | BIT(APPLY), 0,
     "examples:\n"
     "  msgstore redact trace.log 17 18\n"
     "  msgstore redact trace.log --agent worker --until 2026-03-02 --raw --apply\n"
     "\n"
     "usage: msgstore redact [OPTION...] STORE NUMBER...\n"
     "       msgstore redact [OPTION...] STORE, with options that choose\n"
     "Erases what messages say where it stands in the file: content, arguments, notes\n"
     "(but usage), what they said before they were amended. Number, time, type, agent,\n"
     "ids stay. Without --apply it only shows what would be erased. It cannot be\n"
     "undone. Copies, backups and other logs keep what they have, and so does what a\n"
     "crash left of an append, until msgstore compact. Nobody should read meanwhile.\n"
     "\n"
     "  --apply          do it\n"
     "  --raw            hidden messages, too\n"
     "  --conversation   what user and assistant said\n"
     "  --agent A        what agent A did\n"
     VIEW_HELP
     "  --location L     only this location\n"
     WHEN_HELP
     "  -n, --limit N    the newest N of these; with --oldest the oldest N\n"
     WRITE_HELP},
    {"verify", run_verify, false, 1, 1, "a STORE", BIT(HELP), 0,
     "examples:\n"
     "  msgstore verify trace.log\n"
     "\n"
     "usage: msgstore verify STORE\n"
     "Reads every byte of a log and tells what is damaged, a range a line. It changes\n"
     "nothing. Exit code 0: whole, 3: damaged.\n"},
    {"repair", run_repair, false, 2, 2, "IN and OUT",
     BIT(HELP) | BIT(REPLACE) | BIT(WAIT), 0,
     "examples:\n"
     "  msgstore repair trace.log whole.log\n"
     "\n"
     "usage: msgstore repair [OPTION...] IN OUT\n"
     "Reads whatever is whole in the log IN and writes it to the new log OUT, with its\n"
     "numbers. Exit code 0: nothing was lost; 3: something was, OUT has all the rest.\n"
     "\n"
     "  --replace        OUT may be there, and is replaced at once; it may be IN\n"
     "  --wait MS        wait so long when somebody else writes to OUT\n"},
    {"compact", run_compact, false, 1, 2, "IN and OUT",
     BIT(HELP) | BIT(KEEP_LAST) | BIT(SINCE) | BIT(LOCATION) | BIT(DRY_RUN) |
     BIT(REPLACE) | BIT(WAIT), 0,
     "examples:\n"
     "  msgstore compact trace.log --keep-last 1000 --dry-run\n"
     "  msgstore compact trace.log trace.log --keep-last 1000 --replace\n"
     "\n"
     "usage: msgstore compact [OPTION...] IN [OUT]\n"
     "Copies a log, or what is to be kept of it, into the new log OUT. Messages keep\n"
     "their numbers. Without a choice all are kept, as they are now: what was hidden,\n"
     "and what amended messages said before, is left out.\n"
     "\n"
     "  --keep-last N    the newest N of each location\n"
     "  --since T        only from T on: seconds since 1970, 2026-03-02, or\n"
     "                   2026-03-02T09:30:00Z (UTC); messages without a time stay\n"
     "  --location L     only this location; may be given several times\n"
     "  --dry-run        only tell what would be copied; OUT may be left out\n"
     "  --replace        OUT may be there, and is replaced at once; it may be IN\n"
     "  --wait MS        wait so long when somebody else writes\n"},
};

static const char main_help[] =
    "examples:\n"
    "  msgstore import trace.log trace.jsonl\n"
    "  msgstore history trace.log --agent worker\n"
    "  msgstore history trace.log --format anthropic -n 40\n"
    "  msgstore check --as anthropic request.json\n"
    "  msgstore convert --from openai --to framework chat.jsonl\n"
    "\n"
    "usage: msgstore COMMAND [OPTION...] [FILE...]\n"
    "\n"
    "  convert   messages in, messages out, in another format\n"
    "  view      messages of a store: of an agent, a team, a turn, a time\n"
    "  history   what an agent reads before its next step; requests for a provider\n"
    "  search    messages that have a text\n"
    "  diff      where two runs part\n"
    "  lookup    the original of a message that was shortened\n"
    "  check     whether a provider would take a list of messages\n"
    "  info      how many messages, of whom, of which types; what they cost\n"
    "\n"
    "  import    files of messages into a log\n"
    "  append    messages from standard input to a log, as they come\n"
    "  follow    the newest messages of a log, then those that come\n"
    "  export    the messages of a store as lines\n"
    "  verify    whether every byte of a log is whole\n"
    "  repair    what is whole of a damaged log into a new one\n"
    "  compact   what is to be kept of a log into a new one\n"
    "\n"
    "  amend     say something else in a message of a log\n"
    "  hide      take messages out of every view\n"
    "  rewind    go back to a message of a location\n"
    "  fork      go on in another way from a message\n"
    "  note      attach a value to a message: a rating, what it cost\n"
    "  location  facts about a location: a title, a model\n"
    "  redact    erase what messages say\n"
    "\n"
    "msgstore COMMAND -h tells more, msgstore --version the version.\n"
    "\n"
    "A STORE is a log, which import, append, repair, compact and the last seven write.\n"
    "view, history, search, diff, lookup, info and export also take a file of messages\n"
    "(- is standard input), JSON or JSON Lines: messages, lists of messages, bodies of\n"
    "requests, or objects that carry such a list under messages, contents, traj,\n"
    "history or trajectory; and the transcripts of other programs. view, search and\n"
    "info take several stores.\n";

static int print_help(const char *help, bool exits)
{
    output out = {stdout, 0};
    char text[128];
    emit_text(&out, help);
    emit_text(&out, "\nmessage formats:");
    for (size_t i = 0; ms_dialect_at(i) != NULL; i++) {
        if (i == 6) emit_text(&out, "\n   ");
        emit_format(&out, " %s", ms_dialect_name(ms_dialect_at(i)));
    }
    emit_text(&out, "\nto read only:");
    for (size_t i = 0; i < COUNT_OF(transcripts); i++) {
        emit_format(&out, " %s", ms_dialect_name(&transcripts[i]));
    }
    emit_text(&out, "\nproviders:");
    for (size_t i = 0; ms_profile_at(i) != NULL; i++) {
        emit_format(&out, " %s", ms_profile_at(i)->name);
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

static bool set_from(const ms_dialect **dialect, const char *text)
{
    *dialect = find_format(ms_str_of(text));
    return *dialect != NULL;
}

static bool set_provider(const ms_profile **provider, const char *text)
{
    *provider = ms_profile_find(ms_str_of(text));
    return *provider != NULL;
}

/* A format of messages; the name of a provider is that of its format, too. */
static bool set_format(options *o, const char *text)
{
    set_provider(&o->provider, text);
    return set_dialect(&o->to, text) || strcmp(text, "table") == 0;
}

static bool set_name(const char **name, const char *text)
{
    *name = text;
    return *text != '\0';
}

static bool set_location(options *o, const char *text)
{
    o->locations[o->n_locations++] = ms_str_of(text); /* has room for all arguments */
    return set_name(&o->location, text);
}

static bool set_sync(options *o, const char *text)
{
    static const char *const words[] = {"", "none", "each", "end"};
    o->sync = SYNC_UNSET;
    for (size_t i = 1; i < COUNT_OF(words); i++) {
        if (strcmp(words[i], text) == 0) o->sync = (sync_word)i;
    }
    return o->sync != SYNC_UNSET;
}

static bool set_phase(int64_t *phase, const char *text)
{
    return ms_json_i64(ms_str_of(text), phase) == MS_OK;
}

static bool set_wait(uint32_t *wait_ms, const char *text)
{
    uint64_t value = 0;
    bool good = parse_number(text, &value) && value <= UINT32_MAX;
    *wait_ms = (uint32_t)value;
    return good;
}

/* What else is to be compared, "times,ids": each word takes fields off those that are
 * left out. */
static bool set_also(options *o, const char *text)
{
    static const struct {
        const char *word;
        uint32_t fields;
    } words[] = {{"times", DIFF_TIMES}, {"ids", DIFF_IDS}, {"rest", DIFF_REST},
                 {"numbers", 0}};
    for (;; text++) {
        size_t i = 0, len = strcspn(text, ",");
        while (i < COUNT_OF(words) && (strlen(words[i].word) != len ||
                                       memcmp(words[i].word, text, len) != 0)) {
            i++;
        }
        if (i == COUNT_OF(words)) return false;
        o->also_skip &= ~words[i].fields;
        o->also_times = o->also_times || i == 0;
        o->also_numbers = o->also_numbers || i == 3;
        text += len;
        if (*text == '\0') return true;
    }
}

static bool set_seconds(double *seconds, const char *text)
{
    return ms_f64_read(ms_str_of(text), seconds) == MS_OK && *seconds >= 0;
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
    static const char table_or[] = "table or a message format";
    static const char name[] = "a name", when[] = "a number or 2026-03-02T09:30:00Z";
    o->given |= (uint64_t)1 << id;
    switch (id) {
    case OPT_FROM: return set_from(&o->from, text) ? NULL : format;
    case OPT_TO: return set_dialect(&o->to, text) ? NULL : format;
    case OPT_FORMAT: return set_format(o, text) ? NULL : table_or;
    case OPT_AS: return set_provider(&o->provider, text) ? NULL : "a provider";
    case OPT_BUDGET: return set_count(&o->budget, text) ? NULL : number;
    case OPT_STEP: return set_count(&o->step, text) ? NULL : number;
    case OPT_SYSTEM: return set_name(&o->system, text) ? NULL : "a text";
    case OPT_USER: return set_name(&o->user, text) ? NULL : name;
    case OPT_TEAM: return set_team(o, text) ? NULL : "agents with commas between them";
    case OPT_SCOPE: return set_scope(o, text) ? NULL : "orchestrator, manager or worker";
    case OPT_LIMIT: return set_count(&o->limit, text) ? NULL : number;
    case OPT_PHASE: return set_phase(&o->phase, text) ? NULL : number;
    case OPT_SINCE: return parse_time(text, &o->since) ? NULL : when;
    case OPT_UNTIL: return parse_time(text, &o->until) ? NULL : when;
    case OPT_LOCATION: return set_location(o, text) ? NULL : name;
    case OPT_AGENT: return set_name(&o->agent, text) ? NULL : name;
    case OPT_KEEP_LAST: return set_count(&o->keep_last, text) ? NULL : number;
    case OPT_AFTER: return parse_number(text, &o->after) ? NULL : number;
    case OPT_WAIT: return set_wait(&o->wait_ms, text) ? NULL : "milliseconds";
    case OPT_ALSO: return set_also(o, text) ? NULL : "words of times, ids, numbers, rest";
    case OPT_SECONDS: return set_seconds(&o->seconds, text) ? NULL : number;
    case OPT_SYNC: return set_sync(o, text) ? NULL : "none, each or end";
    case OPT_TURN: return set_name(&o->turn, text) ? NULL : name;
    default: return NULL; /* it is enough that it is given */
    }
}

/* The names that an option takes are told when it is given another one. */
static int bad_word(const command *c, int id, const char *text, const char *word)
{
    int code = bad_usage(c, text, word);
    uint64_t formats_of = BIT(FROM) | BIT(TO) | BIT(FORMAT);
    if ((formats_of >> id & 1) != 0) {
        fprintf(stderr, "message formats:");
        for (size_t i = 0; ms_dialect_at(i) != NULL; i++) {
            fprintf(stderr, " %s", ms_dialect_name(ms_dialect_at(i)));
        }
        for (size_t i = 0; id == OPT_FROM && i < COUNT_OF(transcripts); i++) {
            fprintf(stderr, " %s", ms_dialect_name(&transcripts[i]));
        }
        fprintf(stderr, "\n");
    }
    if (id == OPT_AS || (id == OPT_FORMAT && strcmp(c->name, "history") == 0)) {
        fprintf(stderr, "providers:");
        for (size_t i = 0; ms_profile_at(i) != NULL; i++) {
            fprintf(stderr, " %s", ms_profile_at(i)->name);
        }
        fprintf(stderr, "\n");
    }
    return code;
}

static int parse_options(const command *c, int argc, char **argv, options *o)
{
    char text[128];
    for (int got; (got = getopt_long(argc, argv, ":hn:", long_options, NULL)) != -1;) {
        if (got == ':') return bad_usage(c, "needs an argument for ", argv[optind - 1]);
        if (got == '?') return bad_usage(c, "does not understand ", argv[optind - 1]);
        int id = got == 'h' ? OPT_HELP : got == 'n' ? OPT_LIMIT : got - OPT_FIRST;
        const char *word = long_options[id].name;
        if ((c->takes >> id & 1) == 0) return bad_usage(c, "takes no option --", word);
        const char *expected = set_option(o, id, optarg);
        if (expected == NULL) continue;
        snprintf(text, sizeof text, "--%s expects %s, not ", word, expected);
        return bad_word(c, id, text, optarg);
    }
    if (GIVEN(o, HELP)) return FINE;
    for (int id = 0; long_options[id].name != NULL; id++) {
        if (((c->needs & ~o->given) >> id & 1) == 0) continue;
        return bad_usage(c, "needs the option --", long_options[id].name);
    }
    static char *standard_input[] = {"-"};
    o->files = optind < argc ? argv + optind : standard_input;
    o->n_files = (size_t)(argc - optind);
    if (o->n_files < c->least) return bad_usage(c, "needs ", c->arguments);
    if (o->n_files <= c->most) return FINE;
    static const char *const most[] = {"", "takes one file, not ",
                                       "takes two files, not "};
    return bad_usage(c, c->most < COUNT_OF(most) ? most[c->most] : "takes no ",
                     o->files[c->most]);
}

static int run_command(const command *c, int argc, char **argv)
{
    options o = {0};
    job j = {0};
    o.also_skip = DIFF_TIMES | DIFF_IDS | DIFF_REST;
    o.locations = calloc((size_t)argc, sizeof *o.locations);
    int code = o.locations != NULL ? parse_options(c, argc, argv, &o) : no_memory();
    j.options = &o;
    if (code == FINE && GIVEN(&o, HELP)) {
        code = print_help(c->help, false);
    } else if (code == FINE) {
        if (c->store) code = open_store(&j);
        if (code == FINE) code = c->run(&j);
        int closed = close_job(&j);
        if (code == FINE) code = closed;
    }
    free(o.locations);
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
