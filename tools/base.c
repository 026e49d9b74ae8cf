/* See base.h. */

#define _GNU_SOURCE
#define STB_DS_IMPLEMENTATION
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef _WIN32
#include <sys/wait.h>
#endif


/* ---- Exit codes -------------------------------------------------------------------- */

const char *const exit_texts[EXIT_CODES] = {
    "fine", "failed: bad input, no memory, cannot read or write; none found",
    "usage",
    "stored bytes are damaged (the rest was used), or foreign",
    "no such file or location",
    "conflict with what is stored", "busy: another writer has it",
};

/* Results whose exit code is not FAILED. */
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

int exit_code(ms_result result)
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

/* Characters two columns wide: East Asian wide and full-width ones, pictures. Sorted. */
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

/* Characters without a column: marks that join the character before them. Sorted. */
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

unsigned columns_of(uint32_t point)
{
    if (point < joining[0].first) return 1; /* before the tables */
    if (is_in(joining, COUNT_OF(joining), point)) return 0;
    return is_in(wide, COUNT_OF(wide), point) ? 2 : 1;
}

uint32_t next_point(ms_str *text)
{
    const unsigned char *p = (const unsigned char *)text->ptr;
    if (p[0] < 0x80) {
        *text = ms_str_n(text->ptr + 1, text->len - 1);
        return p[0];
    }
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    bool good = len <= text->len && ms_utf8_check(ms_str_n(text->ptr, len), NULL);
    uint32_t point = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; good && i < len; i++) point = point << 6 | (p[i] & 0x3fu);
    if (!good) len = 1;
    *text = ms_str_n(text->ptr + len, text->len - len);
    return good ? point : 0xfffd;
}

uint32_t visible(uint32_t point)
{
    static const span controls[] = {
        {0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e},
        {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
    };
    if (point == '\n' || point == '\r' || point == '\t') return ' ';
    if (point < 0x20) return 0x2400 + point;
    if (point == 0x7f) return 0x2421;
    if (point < controls[0].first) return point;
    return is_in(controls, COUNT_OF(controls), point) ? 0xfffd : point;
}

size_t put_utf8(char *out, uint32_t point)
{
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, point >>= 6) {
        out[i] = (char)(0x80 | (point & 0x3f));
    }
    out[0] = (char)(len == 1 ? point : (0xf00u >> len & 0xff) | point);
    return len;
}

cell cell_over(char *buf, size_t cap, unsigned limit)
{
    cell c = {0};
    c.buf = buf;
    c.cap = cap;
    c.limit = limit;
    c.blank = true;
    return c;
}

void cell_put(cell *c, ms_str text)
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

/* Returns whether a shell takes a word as it is spelled. */
static bool is_plain_word(ms_str word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-_./";
    size_t i = 0;
    while (i < word.len && word.ptr[i] != '\0' && strchr(plain, word.ptr[i]) != NULL) i++;
    return i == word.len && i > 0 && word.ptr[0] != '-';
}

/* Returns whether a byte of a word has to be spelled by its number: a control character,
 * or a space after another one, since complaints have one space in place of several. */
static bool is_spelled(ms_str word, size_t i)
{
    unsigned char c = (unsigned char)word.ptr[i];
    return c < ' ' || c == 0x7f || (c == ' ' && i > 0 && word.ptr[i - 1] == ' ');
}

void put_shell_word(ms_buf *buf, ms_str word)
{
    bool spelled = false;
    char code[8];
    if (is_plain_word(word)) {
        ms_buf_write(buf, word.ptr, word.len);
        return;
    }
    for (size_t i = 0; i < word.len; i++) spelled |= is_spelled(word, i);
    ms_buf_write(buf, spelled ? "$'" : "'", spelled ? 2 : 1);
    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.ptr[i];
        if (is_spelled(word, i)) {
            snprintf(code, sizeof code, "\\%03o", c);
            ms_buf_write(buf, code, 4);
            continue;
        }
        if (spelled && (c == '\'' || c == '\\')) ms_buf_write(buf, "\\", 1);
        else if (c == '\'') ms_buf_write(buf, "'\\'", 3);
        ms_buf_write(buf, word.ptr + i, 1);
    }
    ms_buf_write(buf, "'", 1);
}

const char *shell_word(ms_arena *arena, const char *word)
{
    ms_buf buf = {arena, NULL, 0, 0};
    put_shell_word(&buf, ms_str_of(word));
    ms_buf_write(&buf, "", 1);
    ms_str text = ms_buf_text(&buf);
    if (text.ptr == NULL) exit(no_memory());
    return text.ptr;
}

static ms_buf *complaints;

void complain_into(ms_buf *text)
{
    complaints = text;
}

void complain(const char *format, ...)
{
    char raw[2048], clean[6 * sizeof raw];
    va_list list;
    va_start(list, format);
    vsnprintf(raw, sizeof raw, format, list);
    va_end(list);
    cell c = cell_over(clean, sizeof clean, sizeof clean);
    cell_put(&c, ms_str_of(raw));
    if (complaints != NULL) {
        if (complaints->len > 0) ms_buf_write(complaints, "\n", 1);
        ms_buf_write(complaints, c.buf, c.len);
        return;
    }
    fprintf(stderr, "%smsgstore: %.*s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
            (int)c.len, c.buf);
}

int complain_of(const char *what, ms_result result, const ms_error *err)
{
    complain("%s%s%s", what != NULL ? what : "", what != NULL ? ": " : "", err->message);
    return exit_code(result);
}

int no_memory(void)
{
    complaints = NULL; /* the program may end here */
    complain("no memory");
    return FAILED;
}

ms_str clip(ms_str text, size_t most)
{
    if (text.len <= most) return text;
    while (most > 0 && ((unsigned char)text.ptr[most] & 0xC0) == 0x80) most--;
    return ms_str_n(text.ptr, most);
}

ms_result get_shown(ms_store *store, uint64_t seq, ms_arena *arena, const ms_msg **msg,
                    ms_error *err)
{
    ms_result result = ms_get_by_seq(store, seq, arena, msg, err);
    return result == MS_E_DAMAGED && *msg != NULL ? MS_OK : result;
}

ms_result get_facts(ms_store *store, ms_str location, ms_arena *arena, ms_str *facts,
                    ms_error *err)
{
    facts->ptr = NULL;
    ms_result result = ms_location_get(store, location, arena, facts, err);
    return result == MS_E_DAMAGED && facts->ptr != NULL ? MS_OK : result;
}

void *room_or_exit(void *old, size_t size)
{
    void *room = realloc(old, size);
    if (room == NULL && size > 0) exit(no_memory());
    return room;
}


/* ---- Numbers and times ------------------------------------------------------------- */

const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

const char *short_number(uint64_t n, char out[NUMBER_MAX])
{
    if (n < 10000) snprintf(out, NUMBER_MAX, "%" PRIu64, n);
    else if (n < 999500) snprintf(out, NUMBER_MAX, "%" PRIu64 "k", (n + 500) / 1000);
    else if (n < 999950000) snprintf(out, NUMBER_MAX, "%.1fM", (double)n / 1e6);
    else snprintf(out, NUMBER_MAX, "%.1fG", (double)n / 1e9);
    return out;
}

bool parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    char digits[24];
    size_t len = strspn(text, "0123456789");
    const char *unit = text[len] != '\0' ? strchr(units, text[len]) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    bool ends = strlen(text) == len + (unit != NULL ? 1 : 0);
    if (len == 0 || len >= sizeof digits || !ends) return false;
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (!parse_number(digits, out) || *out == 0) return false;
    if (*out > UINT64_MAX >> shift) return false;
    *out <<= shift;
    return true;
}

bool parse_number(const char *text, uint64_t *out)
{
    return ms_json_u64(ms_str_of(text), out) == MS_OK;
}

/* Removes n digits from the start of the text and sets *out to their number. */
static bool parse_digits(const char **text, size_t n, int *out)
{
    *out = 0;
    for (; n > 0; n--, (*text)++) {
        if (**text < '0' || **text > '9') return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

/* Parses "T09:30", "T09:30:05", "T09:30:05.25", each with or without a Z. */
static bool parse_clock(const char *at, struct tm *t, int64_t *fraction_ns)
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
        if (len < 2) return false;
        if (ms_seconds_read(ms_str_of(text), fraction_ns) != MS_OK) return false;
        at += len;
    }
    if (*at == 'Z') at++;
    return *at == '\0' && t->tm_hour < 24 && t->tm_min < 60 && t->tm_sec < 60;
}

const char *cost_by_word(cost_by by)
{
    static const char *const words[] = {"model", "day", "week", "month", "session",
                                        "project", "agent", "tool"};
    return words[by];
}

bool cost_by_of(const char *word, cost_by *by)
{
    for (int i = BY_MODEL; i <= BY_TOOL; i++) {
        *by = (cost_by)i;
        if (strcmp(word, cost_by_word(*by)) == 0) return true;
    }
    return false;
}

#ifndef _WIN32
static pid_t pager;           /* 0: none */
#endif
static unsigned pager_width;  /* columns of its terminal; 0: no terminal */

bool output_is_terminal(void)
{
    return pager_width > 0 || isatty(STDOUT_FILENO) != 0;
}

unsigned line_width(void)
{
    struct winsize size;
    if (pager_width > 0) return pager_width;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
    return size.ws_col < 1000 ? size.ws_col : 1000;
}

#ifdef _WIN32
void standard_files_keep(void)
{
}

void pager_begin(void)
{
}

void pager_end(void)
{
}
#else
/* An open takes the lowest number that is free. The opposite mode lets each use fail. */
void standard_files_keep(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) _exit(1);
    }
}

/* Returns whether PATH has a program of that name. */
static bool is_program(const char *name)
{
    const char *path = getenv("PATH");
    char file[1024];
    while (path != NULL && *path != '\0') {
        size_t len = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)len, path, name);
        if (access(file, X_OK) == 0) return true;
        path += len + (path[len] == ':');
    }
    return false;
}

static const char *pager_command(void)
{
    const char *command = getenv("MSGSTORE_PAGER");
    if (command == NULL) command = getenv("PAGER");
    if (command == NULL) command = is_program("less") ? "less" : "cat";
    return command[0] == '\0' || strcmp(command, "cat") == 0 ? NULL : command;
}

void pager_begin(void)
{
    int ends[2];
    const char *command = isatty(STDOUT_FILENO) != 0 ? pager_command() : NULL;
    if (command == NULL || pipe(ends) != 0) return;
    unsigned width = line_width();
    setenv("LESS", "FRX", 0);
    setenv("LV", "-c", 0);
    pager = fork();
    if (pager == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pager > 0) {
        pager_width = width;
        dup2(ends[1], STDOUT_FILENO);
    }
    close(ends[0]);
    close(ends[1]);
}

void pager_end(void)
{
    if (pager <= 0) return;
    fflush(stdout);
    close(STDOUT_FILENO);
    waitpid(pager, NULL, 0);
}
#endif

bool colour_wanted(void)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    bool plain = (none != NULL && none[0] != '\0') ||
                 (term != NULL && strcmp(term, "dumb") == 0);
    return !plain && output_is_terminal();
}

/* Parses a duration such as "2 days ago" or "3h" into seconds. */
static bool parse_ago(const char *text, double *seconds)
{
    static const struct {
        const char *word;
        double seconds;
    } units[] = {
        {"s", 1}, {"sec", 1}, {"second", 1}, {"m", 60}, {"min", 60}, {"minute", 60},
        {"h", 3600}, {"hour", 3600}, {"d", 86400}, {"day", 86400}, {"w", 604800},
        {"week", 604800}, {"month", 2629746}, {"y", 31556952}, {"year", 31556952},
    };
    char word[16] = "", *end;
    size_t len = 0;
    double n = strncmp(text, "last ", 5) == 0 || strncmp(text, "a ", 2) == 0 ? 1 : 0;
    if (n > 0) text = strchr(text, ' ');
    if (n <= 0 && (text[0] < '0' || text[0] > '9')) return false;
    if (n <= 0) n = strtod(text, &end);
    else end = (char *)(uintptr_t)text;
    while (*end == ' ') end++;
    for (; end[len] >= 'a' && end[len] <= 'z' && len < sizeof word - 1; len++) {
        word[len] = end[len];
    }
    end += len;
    if (strcmp(end, "") != 0 && strcmp(end, " ago") != 0) return false;
    if (len > 2 && word[len - 1] == 's') word[len - 1] = '\0';
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (strcmp(units[i].word, word) != 0) continue;
        *seconds = n * units[i].seconds;
        return true;
    }
    return false;
}

/* Parses words for a time before now. Days begin at midnight, UTC. */
static bool parse_words(const char *text, int64_t *ns)
{
    int64_t now = (int64_t)time(NULL), today = now - now % 86400;
    double ago;
    if (strcmp(text, "now") == 0) *ns = now;
    else if (strcmp(text, "today") == 0) *ns = today;
    else if (strcmp(text, "yesterday") == 0) *ns = today - 86400;
    else if (parse_ago(text, &ago) && ago < 1e10) *ns = now - (int64_t)ago;
    else return false;
    *ns *= 1000000000;
    return true;
}

/* Returns nanoseconds; a time out of range becomes the nearest one in range. */
static int64_t whole_seconds(time_t seconds)
{
    const int64_t most = INT64_MAX / 1000000000 - 1;
    int64_t s = seconds > most ? most : seconds < -most ? -most : (int64_t)seconds;
    return s * 1000000000;
}

bool parse_time(const char *text, int64_t *ns)
{
    const char *at = text;
    struct tm t = {0};
    int64_t fraction_ns = 0;
    if (ms_seconds_read(ms_str_of(text), ns) == MS_OK) return true;
    if (parse_words(text, ns)) return true;
    if (!parse_digits(&at, 4, &t.tm_year) || *at++ != '-') return false;
    if (!parse_digits(&at, 2, &t.tm_mon) || *at++ != '-') return false;
    if (!parse_digits(&at, 2, &t.tm_mday)) return false;
    if (*at != '\0' && !parse_clock(at, &t, &fraction_ns)) return false;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    struct tm same = t;
    *ns = whole_seconds(timegm(&same)) + fraction_ns;
    return same.tm_mday == t.tm_mday && same.tm_mon == t.tm_mon; /* no 31st of June */
}

const char *time_text(int64_t ns, char out[TIME_MAX])
{
    struct tm t;
    int64_t part = (ns % 1000000000 + 1000000000) % 1000000000;
    int64_t whole = ns < part - INT64_MAX ? ns : ns - part;
    size_t len = ms_iso_write(whole, out);
    time_t at = (time_t)(whole / 1000000000);
    out[len] = '\0';
    if (len == 0 || out[len - 1] != 'Z' || localtime_r(&at, &t) == NULL) return out;
    long offset = (long)(timegm(&t) - at), size = offset < 0 ? -offset : offset;
    if (offset == 0) return out;
    len = ms_iso_write(whole + (int64_t)offset * 1000000000, out);
    snprintf(out + len - 1, TIME_MAX - len + 1, "%c%02ld:%02ld", offset < 0 ? '-' : '+',
             size / 3600 % 100, size / 60 % 60);
    return out;
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}


/* ---- A counting table: text -> number of times, bytes ------------------------------ */

uint64_t hash_text(ms_str text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * 1099511628211u;
    }
    return hash;
}

const char *find_bytes(const char *bytes, size_t len, const char *piece, size_t n)
{
    if (n == 0 || len < n) return n == 0 ? bytes : NULL;
    const char *end = bytes + len, *at = bytes;
    while (n <= (size_t)(end - at)) {
        at = memchr(at, piece[0], (size_t)(end - at) - n + 1);
        if (at == NULL) return NULL;
        if (memcmp(at, piece, n) == 0) return at;
        at++;
    }
    return NULL;
}

char *copy_chars(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL) return NULL;
    if (len > 0) memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

bool copy_text(ms_arena *arena, ms_str text, ms_str *out)
{
    char *copy = ms_arena_alloc(arena, text.len);
    if (copy != NULL && text.len > 0) memcpy(copy, text.ptr, text.len);
    *out = ms_str_n(copy, text.len);
    return copy != NULL;
}

tally_row *tally_row_of(tally *t, ms_str text)
{
    tally_row row = {{NULL, 0}, 0, 0};
    if (text.ptr == NULL) text = MS_STR("");
    for (uint64_t key = hash_text(text);; key++) { /* another text may have this hash */
        tally_index *found = hmgetp_null(t->index, key);
        if (found == NULL) {
            if (!copy_text(&t->arena, text, &row.text)) return NULL;
            hmput(t->index, key, arrlenu(t->rows));
            arrput(t->rows, row);
            return &arrlast(t->rows);
        }
        if (ms_str_equal(t->rows[found->value].text, text)) return &t->rows[found->value];
    }
}

void tally_free(tally *t)
{
    arrfree(t->rows);
    hmfree(t->index);
    ms_arena_deinit(&t->arena);
}


/* ---- Output ------------------------------------------------------------------------ */

ms_result emit(void *ctx, const char *bytes, size_t len)
{
    output *out = ctx;
    if (out->error == 0 && fwrite(bytes, 1, len, out->file) == len) return MS_OK;
    if (out->error == 0) out->error = errno != 0 ? errno : EIO;
    return MS_E_IO;
}

void emit_text(output *out, const char *text)
{
    emit(out, text, strlen(text));
}

void emit_format(output *out, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    emit_text(out, text);
}

void emit_visible(output *out, const char *text)
{
    char point[4];
    ms_str rest = ms_str_of(text);
    while (rest.len > 0) emit(out, point, put_utf8(point, visible(next_point(&rest))));
}

void emit_pad(output *out, unsigned used, unsigned width)
{
    for (; used < width; used++) emit(out, " ", 1);
}

int output_end(output *out, int code)
{
    if (out->error == 0 && fflush(out->file) != 0) out->error = errno != 0 ? errno : EIO;
    if (out->error == 0) return code;
    if (out->error != EPIPE) complain("cannot write: %s", strerror(out->error));
    return FAILED;
}
