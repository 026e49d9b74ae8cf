/* See usual.h. */

#define _GNU_SOURCE
#include "usual.h"
#include "postgres.h"

#include <errno.h>
#include <sys/stat.h>

bool usual_log(char *out, size_t size)
{
    const char *log = getenv("MSGSTORE_LOG"), *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (log != NULL && log[0] != '\0') n = snprintf(out, size, "%s", log);
    else if (state != NULL && state[0] == '/')
        n = snprintf(out, size, "%s/msgstore/messages.log", state);
    else if (home != NULL && home[0] != '\0')
        n = snprintf(out, size, "%s/.local/state/msgstore/messages.log", home);
    return n > 0 && (size_t)n < size;
}

bool usual_log_prepare(const char *path)
{
    char folder[1024];
    size_t len = strlen(path);
    for (size_t i = 1; i < len && i < sizeof folder; i++) {
        if (path[i] != '/') continue;
        memcpy(folder, path, i);
        folder[i] = '\0';
        if (mkdir(folder, 0700) == 0 || errno == EEXIST) continue;
        complain("%s: %s", folder, strerror(errno));
        return false;
    }
    return true;
}

/* Returns whether an argument can only be a store. */
static bool is_store_word(const char *text)
{
    return strcmp(text, "-") == 0 || strchr(text, '/') != NULL || is_there(text) ||
           is_postgres(text);
}

/* Commands that take the usual log, and the arguments that follow a STORE: a SESSION,
 * which may be left out, a TEXT, or a NUMBER. */
static const struct {
    const char *name;
    size_t least, most;
} takers[] = {
    {"sync", 0, 0}, {"sessions", 0, 0}, {"search", 1, 1}, {"usage", 0, 1}, {"view", 0, 1},
    {"history", 0, 1}, {"export", 0, 1}, {"show", 1, 1}, {"info", 0, 0}, {"report", 0, 1},
    {"mcp", 0, 0}, {"serve", 0, 0}, {"verify", 0, 0}, {"follow", 0, 0},
    {"hand-over", 0, 1}, {"redact", 0, 0},
};

/* Commands that write a log that exists: it has to be named. */
static const char *const changers[] = {
    "redact", "hide", "note", "rewind", "amend", "location", "compact-context",
};

bool usual_log_refuse(const command *c, const options *o)
{
    char path[1024];
    size_t i = 0;
    ms_arena arena = {0};
    ms_buf buf = {&arena, NULL, 0, 0};
    while (i < COUNT_OF(changers) && strcmp(changers[i], c->name) != 0) i++;
    if (i == COUNT_OF(changers) || o->usual) return false;
    if (!usual_log(path, sizeof path)) return false;
    if (o->n_files > 0 && is_store_word(o->files[0])) return false;
    if (o->n_files > 0 && strchr(o->files[0], '.') != NULL) return false;
    if (!is_there(path)) return false;
    complain("%s changes a log, which has to be named; with the usual one:", c->name);
    put_shell_word(&buf, ms_str_of(path));
    for (size_t k = 0; k < o->n_files; k++) {
        ms_buf_write(&buf, " ", 1);
        put_shell_word(&buf, ms_str_of(o->files[k]));
    }
    ms_str text = ms_buf_text(&buf);
    bool whole = text.len < 1600; /* of a longer one a part would do something else */
    complain("  msgstore %s %.*s%s", c->name, whole ? (int)text.len : 0, text.ptr,
             !whole ? "LOG ..." : GIVEN(o, SECRETS) ? " --secrets --apply" : "");
    ms_arena_deinit(&arena);
    return true;
}

void usual_log_hint(const command *c, const options *o)
{
    static const char *const names[] = {"info", "doctor", "serve", "verify", "follow",
                                        "sessions", "mcp"};
    char path[1024];
    ms_arena arena = {0};
    const char *word = o->n_files == 1 && !o->usual ? o->files[0] : "-";
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(names[i], c->name) != 0 || is_store_word(word)) continue;
        if (strchr(word, '.') != NULL || !usual_log(path, sizeof path)) return;
        complain("%s takes no session; view, history, usage, report and hand-over do: "
                 "msgstore view %s", c->name, shell_word(&arena, word));
    }
    ms_arena_deinit(&arena);
}

/* Returns whether a word has the ending of a file that is a store. */
static bool has_store_end(const char *text)
{
    static const char *const ends[] = {".log", ".msl", ".jsonl", ".json", ".db"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (ends_with(text, ends[i])) return true;
    }
    return false;
}

/* Returns whether all arguments of search are words to look for, in the usual log: one
 * that is no log, or several of which only the last one may have the name of a file. */
static bool are_words(const options *o)
{
    if (o->n_files == 1) return !is_log(o->files[0]) && !is_postgres(o->files[0]);
    for (size_t i = 0; i + 1 < o->n_files; i++) {
        if (is_store_word(o->files[i]) || has_store_end(o->files[i])) return false;
    }
    return o->n_files > 0;
}

static size_t taker_of(const command *c)
{
    size_t i = 0;
    while (i < COUNT_OF(takers) && strcmp(takers[i].name, c->name) != 0) i++;
    return i;
}

bool usual_log_take(const command *c, options *o)
{
    static char path[1024];
    size_t i = taker_of(c);
    if (i == COUNT_OF(takers)) return false;
    bool sync = strcmp(c->name, "sync") == 0, waits = strcmp(c->name, "mcp") == 0;
    bool fits = o->n_files >= takers[i].least && o->n_files <= takers[i].most &&
                (o->n_files == 0 || !is_store_word(o->files[0]));
    if (sync && o->n_files > 0) fits = is_folder(o->files[0]);
    if (strcmp(c->name, "search") == 0) fits = are_words(o);
    if (strcmp(c->name, "redact") == 0 && !GIVEN(o, SECRETS)) fits = false;
    if (GIVEN(o, APPLY)) fits = false; /* what is changed has to be named */
    if (!fits || !usual_log(path, sizeof path)) return false;
    if (!sync && !waits && !is_there(path)) {
        if (o->n_files > takers[i].least) return false; /* it may be a missing STORE */
        complain("%s: there is no log yet; `msgstore sync` makes it", path);
        exit(NOT_FOUND);
    }
    o->listed = calloc(o->n_files + 1, sizeof *o->listed);
    if (o->listed == NULL) exit(no_memory());
    o->listed[0] = path;
    for (size_t k = 0; k < o->n_files; k++) o->listed[k + 1] = o->files[k];
    o->files = o->listed;
    o->n_files++;
    o->usual = true;
    return true;
}

bool is_reversed(const command *c, const options *o)
{
    size_t i = taker_of(c);
    if (i == COUNT_OF(takers) || takers[i].most == 0 || o->n_files != 2) return false;
    const char *first = o->files[0], *last = o->files[1];
    bool session = takers[i].least == 0; /* a name with a dot is that of a file */
    return !is_store_word(first) && is_there(last) && !is_folder(last) &&
           (!session || strchr(first, '.') == NULL);
}
