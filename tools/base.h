/* What all parts of the tool share: exit codes, text for terminals, numbers and times,
 * a counting table, the options of all commands, and the output. */

#ifndef BASE_H
#define BASE_H

#include "../msgstore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Arrays and maps are stb_ds's. When memory runs out, the tool exits; stored messages
 * stay. */
#define STBDS_REALLOC(context, old, size) room_or_exit(old, size)
#define STBDS_FREE(context, old) free(old)
void *room_or_exit(void *old, size_t size);
#if defined(__GNUC__) && !defined(typeof)
#define typeof __typeof__ /* stb_ds uses this name, also in C99 */
#endif
#include <stb_ds.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])


/* ---- Exit codes -------------------------------------------------------------------- */

enum { FINE, FAILED, USAGE, DAMAGED, NOT_FOUND, CONFLICT, BUSY };

/* No exit codes: the value at hand is bad and counted as such; the next may be good. */
enum { SKIPPED = -1, UNSTORED = -2 };

enum { EXIT_CODES = 7 };
extern const char *const exit_texts[EXIT_CODES];

int exit_code(ms_result result);

/* Returns whether something was read: all of it, or all but what is damaged. */
static inline bool is_read(int code)
{
    return code == FINE || code == DAMAGED;
}


/* ---- Text for terminals: columns, and no control characters ------------------------ */

unsigned columns_of(uint32_t point);

/* Removes the first character from a text that is not empty and returns it; U+FFFD for
 * a byte that is not UTF-8. */
uint32_t next_point(ms_str *text);

/* Returns the character to show: the point itself, or a picture of a control character.
 * Marks that change the direction of the line count as control characters. */
uint32_t visible(uint32_t point);
size_t put_utf8(char *out, uint32_t point);

/* Returns the beginning of a text, at most so many bytes, that ends at a character. */
ms_str clip(ms_str text, size_t most);

/* Appends a word of a shell command, in quotes where it needs them, of which a word with
 * control characters or several spaces needs those of bash, zsh and ksh. */
void put_shell_word(ms_buf *buf, ms_str word);
/* Returns the same as a string, in the arena. */
const char *shell_word(ms_arena *arena, const char *word);

/* A part of a line. Added text is cleaned, and truncated after `limit` columns. */
typedef struct cell {
    char *buf;
    size_t cap, len;
    unsigned width, limit;    /* columns */
    size_t cut;               /* where a final "…" goes */
    unsigned cut_width;
    bool blank;               /* the last was a blank: further ones are dropped */
    bool full;
} cell;

cell cell_over(char *buf, size_t cap, unsigned limit);
void cell_put(cell *c, ms_str text);

/* Prints a line on stderr. The line is cleaned, so that text of files or arguments cannot
 * reach the terminal as control characters. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void complain(const char *format, ...);

/* From now on complain() adds its lines to a text; NULL: it prints them again. */
void complain_into(ms_buf *text);

/* Reports a library call's error. what: NULL if the message names the subject itself. */
int complain_of(const char *what, ms_result result, const ms_error *err);
int no_memory(void);

/* As ms_get_by_seq, and MS_OK for a message of which a change may be lost: reading all
 * messages reports that. */
ms_result get_shown(ms_store *store, uint64_t seq, ms_arena *arena, const ms_msg **msg,
                    ms_error *err);

/* Reads the facts of a location, as far as they are whole. */
ms_result get_facts(ms_store *store, ms_str location, ms_arena *arena, ms_str *facts,
                    ms_error *err);


/* ---- Numbers and times ------------------------------------------------------------- */

/* Returns the ending of a noun after its number: "" after 1, else "s". */
const char *plural(uint64_t n);

enum { NUMBER_MAX = 32 };

/* Returns "1234", "56k", "1.2M", "3.4G": up to 999.9G at most six columns. */
const char *short_number(uint64_t n, char out[NUMBER_MAX]);

bool parse_number(const char *text, uint64_t *out);
/* Parses bytes: 65536, 64K, 300M, 2G, in powers of 1024. */
bool parse_bytes(const char *text, uint64_t *out);

/* Parses seconds since 1970, a date with or without a time in UTC, or words: now,
 * today, yesterday, 2 days ago, 3h, last week. */
bool parse_time(const char *text, int64_t *ns);

enum { TIME_MAX = 40 };

/* Returns local time, "2026-03-02T10:00:05+01:00"; with a Z where that is UTC; or the
 * plain number if the year has not four digits. */
const char *time_text(int64_t ns, char out[TIME_MAX]);

/* Opens what a caller has closed of standard input, output and error, so that no file of
 * the tool gets its number: a report would be written into a log. It stays unusable. */
void standard_files_keep(void);

/* Starts a pager if the output is a terminal: MSGSTORE_PAGER, PAGER, or less as git
 * calls it. With the pager "cat" nothing happens. */
void pager_begin(void);
/* Waits until the reader closes the pager. */
void pager_end(void);
/* Returns whether the output goes to a terminal, perhaps through a pager. */
bool output_is_terminal(void);
/* Returns the columns of the terminal, or 100. */
unsigned line_width(void);

/* Returns whether to colour the output: as in git, on a terminal without NO_COLOR. */
bool colour_wanted(void);

/* Returns the seconds of a clock that only goes forward. */
double clock_seconds(void);


/* ---- A counting table: text -> number of times, bytes ------------------------------ */

typedef struct tally_row {
    ms_str text;
    uint64_t count, bytes;
} tally_row;

typedef struct tally_index {
    uint64_t key;             /* hash of the text */
    size_t value;             /* row */
} tally_index;

typedef struct tally {
    ms_arena arena;           /* the texts */
    tally_row *rows;          /* in the order in which they came: an stb_ds array */
    tally_index *index;       /* an stb_ds map; rows of one hash follow each other */
} tally;

uint64_t hash_text(ms_str text);
/* Returns the first place of `piece` in the bytes; NULL if absent. */
const char *find_bytes(const char *bytes, size_t len, const char *piece, size_t n);
/* Copies the first characters of a text to a new string; NULL: no memory. */
char *copy_chars(const char *text, size_t len);
bool copy_text(ms_arena *arena, ms_str text, ms_str *out);

/* Returns the row of a text, valid until the next call. A missing row is added with
 * zeroes. NULL: no memory. */
tally_row *tally_row_of(tally *t, ms_str text);
void tally_free(tally *t);


/* ---- Options of all commands ------------------------------------------------------- */

#define OPTIONS(X) /* name, word, its argument in the help */                            \
    X(AFTER, "after", "N") X(AGENT, "agent", "A") X(ALL, "all", NULL)                   \
    X(ALSO, "also", "WORDS") X(APPLY, "apply", NULL) X(ARRAY, "array", NULL)            \
    X(AS, "as", "PROVIDER") X(BUDGET, "budget", "N") X(BY, "by", "WORD")                \
    X(BY_STORE, "by-store", NULL) X(CONTEXT, "context", "N")                            \
    X(CONVERSATION, "conversation", NULL) X(CWD, "cwd", "DIR")                          \
    X(DRY_RUN, "dry-run", NULL) X(EXACT, "exact-case", NULL)                            \
    X(FIELDS, "all-fields", NULL) X(FIX, "fix", NULL) X(FOLLOW, "follow", NULL)         \
    X(FORMAT, "format", "F") X(FROM, "from", "FORMAT") X(GLOBAL, "global", NULL)        \
    X(GREP, "grep", "TEXT") X(HELP, "help", NULL) X(JSON, "json", NULL)                 \
    X(KEEP_GOING, "keep-going", NULL) X(KEEP_LAST, "keep-last", "N")                    \
    X(KEEP_TOKENS, "keep-tokens", "N") X(KEYS, "keys", NULL)                            \
    X(LENIENT, "lenient", NULL) X(LIMIT, "limit", "N") X(LOCATION, "location", "L")     \
    X(MASK_SECRETS, "mask-secrets", NULL) X(MAX_INPUT, "max-input", "BYTES")            \
    X(MODEL, "model", "M") X(OLDEST, "oldest", NULL) X(OUTPUT, "output", "FILE")        \
    X(PERSONAL, "personal", NULL) X(PHASE, "phase", "N")                                \
    X(PLACES, "places", NULL) X(PRICES, "prices", "FILE")                               \
    X(QUIET, "quiet", NULL) X(RAW, "raw", NULL)                                         \
    X(REPLACE, "replace", NULL) X(REPORT, "report", NULL)                               \
    X(REQUEST, "request", "FILE") X(SCOPE, "scope", "S") X(SECONDS, "seconds", "S")     \
    X(SECRETS, "secrets", NULL) X(SHARED, "shared", NULL)                               \
    X(SHOW_SECRETS, "show-secrets", NULL) X(SINCE, "since", "T") X(STEP, "step", "K")   \
    X(REFUSE, "strict", NULL) X(SUMMARY, "summary", "FILE") X(SYNC, "sync", "S")        \
    X(SYSTEM, "system", "TEXT")                                                         \
    X(TEAM, "team", "A,B") X(TIMELINE, "timeline", NULL) X(TO, "to", "FORMAT")          \
    X(TURN, "turn", "T") X(UNTIL, "until", "T")           \
    X(USAGE, "usage", NULL) X(WAIT, "wait", "MS")                                       \
    X(WITH_LOCATION, "with-location", NULL)                                             \
    /* known by their values: they have no bit */                                       \
    X(FULL, "full", NULL) X(INSTALL, "install", NULL)                           \
    X(METRICS, "metrics", "FILE")                                                       \
    X(OPEN, "open", NULL) X(PLAIN, "plain", NULL) X(PORT, "port", "N")                  \
    X(PREFIX, "prefix", "P")                                                            \
    X(PROMPT, "prompt", "FILE") X(STATUS, "status", NULL)                               \
    X(TIMEZONE, "timezone", "ZONE") X(UNINSTALL, "uninstall", NULL)                     \
    X(USER, "user", "U")

enum {
#define X(name, word, argument) OPT_##name,
    OPTIONS(X)
#undef X
    OPTION_COUNT
};
enum { OPTION_BITS = 64 };
#define BIT(name) ((uint64_t)1 << OPT_##name)
#define GIVEN(o, name) (((o)->given & BIT(name)) != 0)

typedef enum cost_by {
    BY_MODEL, BY_DAY, BY_WEEK, BY_MONTH, BY_SESSION, BY_PROJECT, BY_AGENT, BY_TOOL
} cost_by;
const char *cost_by_word(cost_by by);
bool cost_by_of(const char *word, cost_by *by);

typedef enum sync_word { SYNC_UNSET, SYNC_NONE, SYNC_EACH, SYNC_END } sync_word;

typedef struct options {
    uint64_t given;           /* BIT of each option that was given */
    char **files;             /* arguments that are no options; "-" as a file */
    size_t n_files;
    char **listed;            /* of files, when the usual log was put before them */
    bool usual;               /* the first of files is the usual log */
    const ms_format *from;    /* NULL: look at each message */
    const struct fileformat *transcript; /* of --from, when it names a transcript
                                          * format */
    const ms_format *to;      /* NULL: a table, or */
    bool otlp;                /* --format otlp */
    const struct filewriter *writer; /* of --format, --to, when it names one */
    const ms_profile *provider; /* of --as, or of --format when it names one */
    const char *session;      /* named as the last argument */
    const char *location, *agent, *turn, *system, *user;
    const char *output;       /* NULL: standard output */
    const char *url;          /* --to, when it names a server */
    ms_str *locations;        /* each --location; `location` is the last of them */
    size_t n_locations;
    ms_str *team;
    size_t n_team, limit, keep_last, budget, step, context;
    const char *cwd, *grep, *prices;
    const char *only_agent;   /* of usage and sessions, which read traces as they are */
    const char *model, *prompt, *request, *summary;
    uint64_t keep_tokens;
    cost_by by;
    int64_t since_ns, until_ns;
    const char *since, *until; /* as they were given */
    const char *timezone;     /* NULL: that of the machine */
    double seconds;
    ms_scope_kind scope;
    int64_t phase;
    uint64_t after;
    sync_word sync;
    bool full;
    bool plain;               /* Markdown as it is */
    bool status;              /* of ship */
    const char *metrics;      /* of ship: a file */
    const char *prefix;       /* of ship, fetch: of locations on the server; or NULL */
    bool install, uninstall;  /* a timer of sync */
    bool open;                /* of serve: the browser, too */
    unsigned port;            /* of serve; 0: a free one */
    uint32_t wait_ms;         /* for another writer */
    uint64_t max_input;       /* bytes; 0: the default */
    bool also_times, also_numbers; /* of diff: compare them, too */
    uint32_t also_skip;       /* and which fields not: bits 1 << MS_F_* */
} options;


/* ---- Output ------------------------------------------------------------------------ */

typedef struct output {
    FILE *file;
    int error;                /* errno of the first write that failed */
} output;

ms_result emit(void *ctx, const char *bytes, size_t len);
void emit_text(output *out, const char *text);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void emit_format(output *out, const char *format, ...);
/* Prints a name from a file or an argument, without control characters. */
void emit_visible(output *out, const char *text);
void emit_pad(output *out, unsigned used, unsigned width);

/* Ends the output and returns the exit code; a closed pipe is not an error. */
int output_end(output *out, int code);

/* ---- Messages ---------------------------------------------------------------------- */

static inline ms_str location_of(const ms_msg *msg)
{
    return ms_get(msg, MS_F_LOCATION).text;
}

static inline ms_str agent_key_of(const ms_msg *msg)
{
    return ms_get(msg, MS_F_AGENT_KEY).text;
}

static inline bool text_begins(ms_str text, ms_str begin)
{
    return text.len >= begin.len &&
           (begin.len == 0 || memcmp(text.ptr, begin.ptr, begin.len) == 0);
}

static inline ms_envelope other_message(ms_str type_name, ms_value content)
{
    ms_envelope m = ms_message(MS_T_OTHER, content);
    m.type_name = type_name;
    return m;
}

static inline ms_envelope error_message(ms_value content, ms_str error_type)
{
    ms_envelope m = ms_message(MS_T_ERROR, content);
    m.error_type = error_type;
    return m;
}

static inline ms_result write_msg(ms_writer *w, const ms_msg *msg, ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    return ms_writer_put(w, &m, err);
}


#endif /* BASE_H */
