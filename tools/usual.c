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
    {"mcp", 0, 0}, {"serve", 0, 0},
};

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
