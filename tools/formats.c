/* See formats.h. */

#define _GNU_SOURCE
#include "formats.h"
#include "database.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LOOK_LINES = 40, REPORTED_LINES = 5, FOREIGN_LINES = 8, FOREIGN_BYTES = 32768,
       SHOWN_MEMBERS = 6 };

/* In the order of detection: the first that fits is used. */
static const fileformat *const formats[] = {
    &claude_format,    &codex_format,          &gemini_format,         &copilot_format,
    &openhands_format, &sts_format,            &pi_format,             &otel_format,
    &atif_format,      &gemini_whole_format,   &opencode_format,       &cline_format,
    &roo_format,       &openhands_list_format, &inspect_format,        &otel_whole_format,
    &inspect_sample_format, &aider_format,         &opencode_rows_format,
    &codex_exec_format, &agents_format,        &ui_format,
    &agents_state_format, &crush_format,       &cursor_format,
    &kimi_format,      &chatgpt_format,        &qwen_format,
};

const fileformat *format_at(size_t index)
{
    return index < COUNT_OF(formats) ? formats[index] : NULL;
}

const fileformat *format_find(ms_str name)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (ms_str_equal(name, ms_str_of(formats[i]->name))) return formats[i];
    }
    return NULL;
}


/* ---- Which format ------------------------------------------------------------------ */

static const fileformat *format_of_value(ms_str value, shape_of_file shape)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (formats[i]->shape == shape && formats[i]->shows(value)) return formats[i];
    }
    return NULL;
}

size_t first_object(ms_str text, const ms_error *err)
{
    ms_json_opts repair = {0, true};
    if (err->offset >= text.len || text.ptr[err->offset] != '{') return 0;
    text.len = (size_t)err->offset;
    return ms_json_check(text, &repair, NULL, NULL) == MS_OK ? text.len : 0;
}

/* Returns the format of the first line that shows one. *any: some lines are JSON
 * values. */
static const fileformat *format_of_lines(ms_str text, bool *any)
{
    ms_json_opts repair = {0, true};
    ms_str value;
    bool whole;
    size_t n = 0;
    *any = false;
    while (text.len > 0 && n < LOOK_LINES) {
        ms_str line = next_line(&text, &whole);
        if (is_blank(line)) continue;
        n++;
        ms_error err;
        ms_result result = ms_json_check(line, &repair, &value, &err);
        size_t len = result != MS_OK ? first_object(line, &err) : 0;
        line.len = len > 0 ? len : line.len;
        if (len > 0) result = ms_json_check(line, &repair, &value, NULL);
        if (result != MS_OK || !is_object(value)) continue;
        *any = true;
        const fileformat *f = format_of_value(value, FILE_LINES);
        if (f != NULL) return f;
    }
    return NULL;
}

/* Returns whether a document's beginning has a member name that only these formats
 * have. Only then the complete document is checked. */
bool format_hinted(ms_str head)
{
    static const char *const names[] = {
        "\"schema_version\"", "\"projectHash\"", "\"sessionId\"", "\"resourceSpans\"",
        "\"eval\"", "\"info\"", "\"ts\"", "\"kind\"", "\"epoch\"",
        "\"session_id\"", "\"project_id\"", "\"parts\"", "\"$schemaVersion\"",
        "\"composerData:", "\"bubbleId:", "\"mapping\"",
    };
    if (head.len > 65536) head.len = 65536;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (find_bytes(head.ptr, head.len, names[i], strlen(names[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* Returns the format of a document; if it ends too early, of its complete part. */
static const fileformat *format_of_document(ms_str text, bool all)
{
    ms_json_opts repair = {0, true};
    ms_arena arena = {0};
    ms_str value;
    size_t kept;
    const fileformat *f = NULL;
    if (ms_json_check(text, &repair, &value, NULL) == MS_OK ||
        (all && json_close(text, &arena, &value, &kept))) {
        f = format_of_value(value, FILE_WHOLE);
    }
    ms_arena_deinit(&arena);
    return f;
}

static const fileformat *own_format_of(ms_str text, bool all)
{
    bool lines;
    text = without_mark(text);
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (formats[i]->shape == FILE_TEXT && formats[i]->shows(text)) return formats[i];
    }
    const fileformat *f = format_of_lines(text, &lines);
    if (f != NULL) return f;
    ms_str after = text;
    bool whole;
    if (lines && after.len > 0) { /* several lines of JSON are no document */
        while (after.len > 0 && is_blank(next_line(&after, &whole))) continue;
        if (!is_blank(after)) return NULL;
    }
    return format_hinted(text) ? format_of_document(text, all) : NULL;
}


/* ---- Formats of programs that are not read ------------------------------------------
 * Some of them look like a format that is. */

static bool shows_droid(ms_str v)
{
    return text_is(member(v, "type"), "session_start") && member(v, "id").ptr != NULL;
}

static bool shows_cursor(ms_str v)
{
    return member(v, "type").ptr == NULL && is_kind(member(v, "role"), MS_JSON_STRING) &&
           is_kind(member_at(v, "message.content"), MS_JSON_ARRAY);
}

static bool shows_kimi(ms_str v)
{
    ms_str message = member(v, "message"), role = member(v, "role");
    bool wire = text_is(member(v, "type"), "metadata") &&
                member(v, "protocol_version").ptr != NULL;
    return wire || text_is(role, "_checkpoint") || text_is(role, "_usage") ||
           text_is(role, "_system_prompt") ||
           (is_kind(member(v, "timestamp"), MS_JSON_NUMBER) &&
            member(message, "payload").ptr != NULL &&
            is_kind(member(message, "type"), MS_JSON_STRING));
}

static bool shows_grok(ms_str v)
{
    ms_str type = member(v, "type");
    bool speaks = text_is(type, "user") || text_is(type, "assistant") ||
                  text_is(type, "system");
    return speaks && member(v, "content").ptr != NULL && member(v, "role").ptr == NULL &&
           member(v, "message").ptr == NULL && member(v, "sessionId").ptr == NULL;
}

static bool shows_amp(ms_str v)
{
    ms_str id = member(v, "id");
    return member(v, "v").ptr != NULL && is_kind(member(v, "messages"), MS_JSON_ARRAY) &&
           id.len > 3 && memcmp(id.ptr, "\"T-", 3) == 0;
}

static bool shows_ui_message(ms_str v)
{
    ms_str part;
    return is_kind(member(v, "role"), MS_JSON_STRING) &&
           member(v, "content").ptr == NULL &&
           ms_json_element(member(v, "parts"), 0, &part) &&
           is_kind(member(part, "type"), MS_JSON_STRING);
}

static bool shows_web_chat(ms_str v)
{
    return is_kind(member(v, "chat_messages"), MS_JSON_ARRAY);
}

static bool shows_vscode(ms_str v)
{
    return is_kind(member(v, "requests"), MS_JSON_ARRAY) &&
           (member(v, "responderUsername").ptr != NULL ||
            member(v, "sessionId").ptr != NULL);
}

static const struct {
    bool (*shows)(ms_str value);
    const char *program;
} foreign[] = {
    {shows_droid, "Factory Droid"},
    {shows_cursor, "Cursor"},
    {shows_kimi, "Kimi"},
    {shows_grok, "Grok"},
    {shows_amp, "Amp"},
    {shows_ui_message, "the Vercel AI SDK (UIMessage)"},
    {shows_web_chat, "an export of claude.ai"},
    {shows_vscode, "Copilot Chat in VS Code"},
};

static const char *foreign_value(ms_str value)
{
    ms_str first;
    if (is_kind(value, MS_JSON_ARRAY) && ms_json_element(value, 0, &first)) value = first;
    for (size_t i = 0; is_object(value) && i < COUNT_OF(foreign); i++) {
        if (foreign[i].shows(value)) return foreign[i].program;
    }
    return NULL;
}

/* Returns whether a document's beginning has a member that only a foreign one has. */
static bool foreign_hinted(ms_str head)
{
    static const char *const names[] = {"\"v\"", "\"parts\"", "\"chat_messages\"",
                                        "\"requests\"", "\"message\""};
    if (head.len > 65536) head.len = 65536;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (find_bytes(head.ptr, head.len, names[i], strlen(names[i])) != NULL) {
            return true;
        }
    }
    return false;
}

const char *foreign_of(ms_str text)
{
    ms_str value, rest = text = without_mark(text);
    bool whole;
    const char *program = NULL;
    if (text_begins(text, MS_STR("SQLite format 3"))) {
        return "an SQLite database; of those OpenCode's is read, with the tables "
               "session, message and part, and those of Crush, Cursor and OpenAI's "
               "Agents SDK";
    }
    for (size_t n = 0; n < FOREIGN_LINES && rest.len > 0 && program == NULL; n++) {
        ms_str line = next_line(&rest, &whole);
        if (text.len - rest.len > FOREIGN_BYTES && n > 0) break;
        if (ms_json_check(line, NULL, &value, NULL) == MS_OK) {
            program = foreign_value(value);
        } else if (n == 0 && foreign_hinted(text) &&
                   ms_json_check(text, NULL, &value, NULL) == MS_OK) {
            return foreign_value(value);
        }
    }
    return program;
}

void describe_unknown(ms_str text, char *out, size_t size)
{
    ms_str value, rest = text = without_mark(text);
    bool whole;
    const char *program = foreign_of(text);
    ms_str line = next_line(&rest, &whole);
    bool json = ms_json_check(line, NULL, &value, NULL) == MS_OK ||
                ms_json_check(text, NULL, &value, NULL) == MS_OK;
    if (program != NULL || !json || !is_object(value)) {
        snprintf(out, size, "%s%s", program != NULL ? "of " : "",
                 program != NULL ? program : json ? "JSON that is no object" : "no JSON");
        return;
    }
    ms_json_iter it = ms_json_iterate(value);
    size_t len = (size_t)snprintf(out, size, "JSON with");
    for (size_t n = 0; n < SHOWN_MEMBERS && ms_json_next(&it) && len < size; n++) {
        len += (size_t)snprintf(out + len, size - len, "%s %.*s", n > 0 ? "," : "",
                                it.key.len < 40 ? (int)it.key.len : 40, it.key.ptr);
    }
}

int refuse_transcripts(const char *command, const options *o)
{
    if (o->transcript == NULL) return FINE;
    complain("%s --from expects a message format, not %s, which is one of transcripts: "
             "sync and import take those", command, o->transcript->name);
    return USAGE;
}

const fileformat *format_of(ms_str text, bool all)
{
    const fileformat *f = own_format_of(text, all);
    bool alike = f == &claude_format || f == &pi_format;
    return alike && foreign_of(text) != NULL ? NULL : f;
}


/* ---- A text in a format ------------------------------------------------------------ */

/* The state of reading a text in a format. */
typedef struct text_reading {
    reading r;
    const fileformat *format;
    const options *options;
    counts *counts;
    ms_str text;              /* without a byte order mark, */
    uint64_t base;            /* which has so many bytes */
    ms_arena cleaned;
    uint64_t line;
    size_t reported;
    bool growing;
    int code;
} text_reading;

static void bad_json(text_reading *in, uint64_t offset, const ms_error *err)
{
    if (!trace_is_fresh(in->r.t, offset) && !GIVEN(in->options, REFUSE)) {
        in->counts->bad_before++;
        return;
    }
    const char *place = err->line > 0 ? strstr(err->message, "): ") : NULL;
    uint64_t line = in->line + (err->line > 0 ? err->line - 1 : 0);
    in->counts->bad_lines++;
    in->code = GIVEN(in->options, REFUSE) ? FAILED : DAMAGED;
    if (in->reported++ < REPORTED_LINES) {
        const char *path = strcmp(in->r.path, "-") == 0 ? "standard input" : in->r.path;
        complain("%s: line %" PRIu64 ", column %u (byte %" PRIu64 "): %s%s", path, line,
                 (unsigned)err->column,
                 offset + (err->offset != MS_NO_OFFSET ? err->offset : 0),
                 place != NULL ? place + 3 : err->message,
                 in->code == DAMAGED ? "; left out" : "");
    } else if (in->reported == REPORTED_LINES + 1) {
        complain("%s: more lines are not JSON", in->r.path);
    }
}

/* Reports damage for a reader, at a byte of the text. With --strict it ends the
 * reading. */
static void text_damaged(reading *r, uint64_t offset, const char *what)
{
    text_reading *in = (text_reading *)(void *)r; /* its first member */
    ms_error err;
    memset(&err, 0, sizeof err);
    err.offset = offset;
    err.line = err.column = 1;
    for (size_t i = 0; i < offset && in->reported < REPORTED_LINES; i++) {
        bool ends = in->text.ptr[i] == '\n';
        err.line += ends;
        err.column = ends ? 1 : err.column + 1;
    }
    snprintf(err.message, sizeof err.message, "%s", what);
    in->line = 1;
    bad_json(in, in->base, &err);
    if (in->code == FAILED) trace_fail(r->t, FAILED);
}

/* Checks an entry, which may be kept whole: in a field, one or two objects deeper. Bad
 * UTF-8 is replaced, and counted if the entry is new. */
static ms_result check_value(text_reading *in, uint64_t offset, ms_str text,
                             ms_str *value, ms_error *err)
{
    static const ms_json_opts entry = {MS_FIELD_MAX_DEPTH - 4, false};
    ms_result result = ms_json_check(text, &entry, value, err);
    if (result != MS_E_UTF8 || GIVEN(in->options, REFUSE)) return result;
    ms_str repaired = json_repaired(text, &in->cleaned);
    if (repaired.ptr == NULL) return result;
    result = ms_json_check(repaired, &entry, value, err);
    if (result == MS_OK && trace_is_fresh(in->r.t, offset)) in->counts->repaired++;
    return result;
}

static bool goes_on(const text_reading *in)
{
    return trace_code(in->r.t) == FINE && in->code != FAILED;
}

/* Returns where in a damaged line an entry of the format begins that ends the line: a
 * process that wrote it went on where another one was stopped. len: there is none. */
static size_t last_object(const text_reading *in, ms_str line)
{
    ms_json_opts repair = {0, true};
    ms_str value;
    for (size_t i = 1; i + 1 < line.len; i++) {
        if (line.ptr[i] != '{' || line.ptr[i + 1] != '"') continue;
        ms_str rest = ms_str_n(line.ptr + i, line.len - i);
        bool whole = ms_json_check(rest, &repair, &value, NULL) == MS_OK;
        if (whole && in->format->shows(value)) return i;
    }
    return line.len;
}

static void read_entry(text_reading *in, uint64_t offset, ms_str value)
{
    trace_at(in->r.t, offset, in->line);
    in->format->read(&in->r, value);
    in->r.entries++;
}

/* Reads a line that is not one value: whole entries that follow each other without a
 * newline, and what follows a torn one. err: why the line is none. */
static void read_joined(text_reading *in, uint64_t offset, ms_str line, ms_error *err)
{
    ms_str value;
    for (;;) {
        size_t len = first_object(line, err);
        if (len == 0) {
            len = last_object(in, line);
            bad_json(in, offset, err);
        } else {
            ms_str one = ms_str_n(line.ptr, len);
            bool whole = check_value(in, offset, one, &value, err) == MS_OK;
            if (whole) read_entry(in, offset, value);
        }
        line = ms_str_n(line.ptr + len, line.len - len);
        offset += len;
        if (line.len == 0 || !goes_on(in)) return;
        if (check_value(in, offset, line, &value, err) != MS_OK) continue;
        read_entry(in, offset, value);
        return;
    }
}

static void read_lines(text_reading *in, ms_str text, uint64_t base, uint64_t *done)
{
    const char *begin = text.ptr;
    ms_str value;
    ms_error err;
    bool whole;
    for (in->line = 1; text.len > 0 && goes_on(in); in->line++) {
        uint64_t offset = base + (uint64_t)(text.ptr - begin);
        ms_str line = next_line(&text, &whole);
        if (is_blank(line)) {
            *done = base + (uint64_t)(text.ptr - begin);
            continue;
        }
        if (check_value(in, offset, line, &value, &err) != MS_OK) {
            if (!whole && in->growing && in->r.entries > 0) return;
            read_joined(in, offset, line, &err);
        } else {
            read_entry(in, offset, value);
        }
        *done = base + (uint64_t)(text.ptr - begin);
    }
}

/* Reads a document; if it ends too early, its complete part. */
static void read_document(text_reading *in, ms_str text, uint64_t base, uint64_t *done)
{
    ms_str value;
    ms_error err;
    size_t kept;
    in->line = 1;
    bool whole = check_value(in, base, text, &value, &err) == MS_OK;
    if (!whole) bad_json(in, base, &err);
    if (!whole && in->code == FAILED) return;
    if (!whole && !json_close(text, &in->cleaned, &value, &kept)) return;
    if (!whole && check_value(in, base, value, &value, &err) != MS_OK) return;
    trace_at(in->r.t, base, 1);
    in->format->read(&in->r, value);
    if (whole) *done = base + text.len;
}

int format_read(const fileformat *f, ms_str text, trace *t, const char *path,
                const options *o, counts *c, bool growing, uint64_t *done)
{
    text_reading in;
    memset(&in, 0, sizeof in);
    in.r.t = t;
    in.r.path = path;
    in.format = f;
    in.options = o;
    in.counts = c;
    in.growing = growing;
    ms_str marked = without_mark(text);
    uint64_t base = text.len - marked.len;
    in.r.damaged = text_damaged;
    in.text = marked;
    in.base = base;
    *done = 0;
    if (f->shape == FILE_LINES) read_lines(&in, marked, base, done);
    if (f->shape == FILE_WHOLE) read_document(&in, marked, base, done);
    if (f->shape == FILE_TEXT) {
        f->read(&in.r, marked);
        *done = text.len;
    }
    if (f->end != NULL) f->end(&in.r);
    trace_flush(t); /* messages view the text, also cleaned text */
    ms_arena_deinit(&in.cleaned);
    tally_free(&in.r.talks);
    arrfree(in.r.queued);
    arrfree(in.r.prompts);
    return trace_code(t) != FINE ? trace_code(t) : in.code;
}


/* ---- Folders ----------------------------------------------------------------------- */

static void stat_of(const char *path, unit *u)
{
    struct stat st;
    if (stat(path, &st) != 0) return;
    int64_t changed = (int64_t)st.st_mtime * 1000000000;
#if defined(__linux__)
    changed += st.st_mtim.tv_nsec;
#endif
    u->size += (uint64_t)st.st_size;
    if (changed > u->changed) u->changed = changed;
}

/* Adds what SQLite has beside a database: what a program writes is there first. */
static void stat_of_log(const char *path, unit *u)
{
    size_t len = strlen(path);
    if (!is_database_name(path)) return;
    char *log = malloc(len + sizeof "-wal");
    if (log == NULL) exit(no_memory());
    snprintf(log, len + sizeof "-wal", "%s-wal", path);
    stat_of(log, u);
    free(log);
}

/* Returns whether a file belongs to a database beside it. */
static bool is_of_database(const char *path)
{
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (!ends_with(path, ends[i])) continue;
        char *base = copy_chars(path, strlen(path) - strlen(ends[i]));
        bool there = base != NULL && is_database_name(base) && is_there(base);
        free(base);
        if (there) return true;
    }
    return false;
}

/* Returns ROOT for "ROOT/session/PROJECT/SESSION.json" if ROOT/message exists, else
 * NULL. */
static char *opencode_root(const char *path)
{
    const char *at = path + strlen(path);
    for (int up = 0; up < 3; up++) {
        while (at > path && at[-1] != '/') at--;
        if (at == path) return NULL;
        at--;
    }
    if (strncmp(at, "/session/", 9) != 0 || !ends_with(path, ".json")) return NULL;
    char *root = copy_chars(path, (size_t)(at - path));
    if (root == NULL) exit(no_memory());
    char *messages = path_join(root, "message");
    bool there = is_folder(messages);
    free(messages);
    if (there) return root;
    free(root);
    return NULL;
}

/* Returns the folder of a path. */
static char *folder_of(const char *path)
{
    const char *name = path_name(path);
    char *folder = copy_chars(path, name > path ? (size_t)(name - path) - 1 : 0);
    if (folder == NULL) exit(no_memory());
    return folder;
}

/* Returns whether a path is a file of one event. */
static bool is_event(const char *path)
{
    const char *name = path_name(path);
    return strncmp(name, "event-", 6) == 0 && ends_with(name, ".json") &&
           name - path > 8 && strncmp(name - 8, "/events/", 8) == 0;
}

/* Returns whether a path is a file of messages or parts in a tree whose sessions are
 * units. */
static bool is_in_root(char **roots, const char *path)
{
    for (size_t i = 0; i < arrlenu(roots); i++) {
        size_t len = strlen(roots[i]);
        if (strncmp(path, roots[i], len) != 0) continue;
        if (strncmp(path + len, "/message/", 9) == 0) return true;
        if (strncmp(path + len, "/part/", 6) == 0) return true;
    }
    return false;
}

static void add_copy(char ***paths, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL) exit(no_memory());
    arrput(*paths, copy);
}

static void add_root(char ***roots, const char *root)
{
    for (size_t i = 0; i < arrlenu(*roots); i++) {
        if (strcmp((*roots)[i], root) == 0) return;
    }
    add_copy(roots, root);
}

static void add_unit(unit **units, char ***roots, char *path)
{
    unit u;
    if (is_of_database(path)) return;
    memset(&u, 0, sizeof u);
    u.root = opencode_root(path);
    if (u.root != NULL) add_root(roots, u.root);
    u.events = u.root == NULL && is_event(path);
    if (u.events) {
        char *folder = folder_of(path);
        size_t n = arrlenu(*units);
        bool same = n > 0 && (*units)[n - 1].events &&
                    strcmp((*units)[n - 1].path, folder) == 0;
        if (same) stat_of(path, &(*units)[n - 1]);
        if (same) free(folder);
        if (same) return;
        u.path = folder;
    } else {
        u.path = strdup(path);
        if (u.path == NULL) exit(no_memory());
    }
    stat_of(path, &u);
    stat_of_log(path, &u);
    arrput(*units, u);
}

typedef struct id_at {
    uint64_t key;             /* hash of an id */
    bool value;
} id_at;

/* Returns what follows root/kind/ in a path; NULL: it is not there. */
static const char *path_in(const char *path, const char *root, const char *kind)
{
    size_t len = strlen(root), word = strlen(kind);
    bool in = strncmp(path, root, len) == 0 && path[len] == '/' &&
              strncmp(path + len + 1, kind, word) == 0 && path[len + 1 + word] == '/';
    return in ? path + len + word + 2 : NULL;
}

/* Returns the name of the folder in root/kind/ that a path is in; without a pointer: it
 * is not there. */
static ms_str folder_name(const char *path, const char *root, const char *kind)
{
    const char *name = path_in(path, root, kind);
    const char *end = name != NULL ? strchr(name, '/') : NULL;
    return ms_str_n(end != NULL ? name : NULL, end != NULL ? (size_t)(end - name) : 0);
}

static bool has_id(id_at *ids, ms_str id)
{
    uint64_t hash = hash_text(id);
    return ids != NULL && hmgetp_null(ids, hash) != NULL; /* the look-up makes a map */
}

/* Adds a unit of the files in folders of root/kind/ that are named as no file in
 * root/of/: what they belong to is absent, or says its name in a file that is named
 * otherwise. Those are read only with the unit. */
static void add_lost(unit **units, char **paths, const char *root, const char *kind,
                     const char *of, const char *what)
{
    id_at *names = NULL, *folders = NULL;
    unit_lost lost = {what, 0, NULL, NULL, NULL, kind};
    unit u;
    memset(&u, 0, sizeof u);
    for (size_t i = 0; i < arrlenu(paths); i++) {
        ms_str folder = folder_name(paths[i], root, kind);
        if (folder.ptr != NULL) hmput(folders, hash_text(folder), true);
        if (path_in(paths[i], root, of) != NULL) {
            hmput(names, hash_text(stem_text(paths[i])), true);
        }
    }
    for (size_t i = 0; i < arrlenu(paths); i++) {
        ms_str folder = folder_name(paths[i], root, kind);
        if (folder.ptr != NULL && !has_id(names, folder)) {
            stat_of(paths[i], &u);
            add_copy(&lost.files, paths[i]);
        }
        bool owner = path_in(paths[i], root, of) != NULL;
        if (owner && !has_id(folders, stem_text(paths[i]))) {
            add_copy(&lost.owners, paths[i]);
        }
    }
    hmfree(names);
    hmfree(folders);
    if (arrlenu(lost.files) == 0) {
        paths_free(lost.owners);
        return;
    }
    u.size += arrlenu(lost.files) + arrlenu(lost.owners);
    u.path = path_join(root, kind);
    u.lost = malloc(sizeof lost);
    if (u.lost == NULL || (lost.root = strdup(root)) == NULL) exit(no_memory());
    *u.lost = lost;
    arrput(*units, u);
}

/* Describes what belongs to nothing; without text: all of it belongs to something. */
static void describe_lost(const unit_lost *l, char *out, size_t size)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    ms_arena arena = {0};
    id_at *ids = NULL;
    uint64_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < arrlenu(l->owners); i++) {
        ms_str value;
        bool object = is_read(file_load(&f, l->owners[i])) &&
                      ms_json_check(f.text, NULL, &value, NULL) == MS_OK;
        ms_str id = object ? text_of(&arena, member(value, "id")) : ms_str_n(NULL, 0);
        if (id.len > 0) hmput(ids, hash_text(id), true);
        ms_arena_reset(&arena);
    }
    for (size_t i = 0; i < arrlenu(l->files); i++) {
        bool owned = has_id(ids, folder_name(l->files[i], l->root, l->kind));
        if (!owned && n++ == 0) first = l->files[i];
    }
    *out = 0;
    if (l->rows > 0) {
        snprintf(out, size, "%" PRIu64 " row%s %s", l->rows, plural(l->rows), l->what);
    } else if (n > 0) {
        snprintf(out, size, "%" PRIu64 " file%s %s, the first is %.1000s", n, plural(n),
                 l->what, first);
    }
    hmfree(ids);
    ms_arena_deinit(&arena);
    file_free(&f);
}

unit *units_of(const char *path, uint64_t *others)
{
    unit *units = NULL;
    char **roots = NULL;
    if (!is_folder(path)) {
        char *copy = strdup(path);
        if (copy == NULL) exit(no_memory());
        unit u = {copy, opencode_root(path), false, 0, 0, NULL, NULL};
        stat_of(path, &u);
        stat_of_log(path, &u);
        arrput(units, u);
        return units;
    }
    char **paths = paths_of(path, others);
    for (size_t i = 0; i < arrlenu(paths); i++) {
        char *root = opencode_root(paths[i]);
        if (root != NULL) add_root(&roots, root);
        free(root);
    }
    for (size_t i = 0; i < arrlenu(paths); i++) {
        if (!is_in_root(roots, paths[i])) add_unit(&units, &roots, paths[i]);
    }
    for (size_t i = 0; i < arrlenu(roots); i++) {
        add_lost(&units, paths, roots[i], "message", "session",
                 "of messages without their session");
        add_lost(&units, paths, roots[i], "part", "message",
                 "of parts without their message");
    }
    paths_free(paths);
    paths_free(roots);
    return units;
}

static void lost_free(unit_lost *l)
{
    if (l == NULL) return;
    paths_free(l->files);
    paths_free(l->owners);
    free(l->root);
    free(l);
}

void units_free(unit *units)
{
    for (size_t i = 0; i < arrlenu(units); i++) {
        lost_free(units[i].lost);
        free(units[i].path);
        free(units[i].root);
        free(units[i].session);
    }
    arrfree(units);
}

typedef struct growing {
    char *text;               /* an stb_ds array */
    bool damaged;             /* one of its files was not JSON */
} growing;

static void grow(growing *g, const char *bytes, size_t len)
{
    size_t at = arrlenu(g->text);
    arrsetlen(g->text, at + len);
    memcpy(g->text + at, bytes, len);
}

static void grow_text(growing *g, const char *text)
{
    grow(g, text, strlen(text));
}

/* Reads a file's object; if it ends too early, its complete part. */
static bool grown_value(growing *g, const char *path, ms_str text, ms_arena *arena,
                        ms_str *value)
{
    size_t kept;
    if (ms_json_check(text, NULL, value, NULL) == MS_OK) return true;
    g->damaged = true;
    bool early = json_close(text, arena, value, &kept);
    if (early) complain("%s: the text ends early", path);
    if (early && ms_json_check(*value, NULL, value, NULL) == MS_OK) return true;
    *value = json_repaired(early ? *value : text, arena);
    if (early) return value->ptr != NULL;
    complain("%s: no JSON%s", path, value->ptr != NULL ? " but for some bytes"
                                                       : "; left out");
    return value->ptr != NULL;
}

/* Adds the objects in the files of a folder, with commas between them. */
static int grow_folder(growing *g, const char *folder, const char *before,
                       const char *after, const char *between)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    int code = FINE;
    uint64_t others = 0;
    char **paths = is_folder(folder) ? paths_of(folder, &others) : NULL;
    bool any = false;
    ms_arena arena = {0};
    for (size_t i = 0; i < arrlenu(paths) && code == FINE; i++) {
        ms_str value;
        code = file_load(&f, paths[i]);
        if (!is_read(code)) break;
        g->damaged = g->damaged || code == DAMAGED;
        code = FINE;
        ms_arena_reset(&arena);
        if (!grown_value(g, paths[i], f.text, &arena, &value)) continue;
        if (any) grow_text(g, between);
        grow_text(g, before);
        grow(g, value.ptr, value.len);
        grow_text(g, after);
        any = true;
    }
    complain_of_others(folder, others);
    ms_arena_deinit(&arena);
    paths_free(paths);
    file_free(&f);
    return code;
}

static char *folder_in(const char *root, const char *kind, ms_str name)
{
    char *folder = path_join(root, kind);
    if (name.ptr == NULL) name = MS_STR("-");
    char *id = copy_chars(name.ptr, name.len);
    char *path = id != NULL ? path_join(folder, id) : NULL;
    if (path == NULL || strchr(id, '/') != NULL) exit(no_memory());
    free(folder);
    free(id);
    return path;
}

/* Adds the tree of a session in the form of an export. */
static int grow_session(growing *g, const unit *u, ms_str info, ms_arena *arena)
{
    growing list = {NULL, false};
    ms_str id = text_of(arena, member(info, "id")), value;
    if (id.len == 0 || memchr(id.ptr, '/', id.len) != NULL) {
        complain("%s: a session without an id; left out", u->path);
        return FAILED;
    }
    char *folder = folder_in(u->root, "message", id);
    grow_text(&list, "[");
    int code = grow_folder(&list, folder, "", "", ",");
    grow_text(&list, "]");
    free(folder);
    grow_text(g, "{\"info\":");
    grow(g, info.ptr, info.len);
    grow_text(g, ",\"messages\":[");
    bool first = true;
    if (code == FINE && ms_json_check(ms_str_n(list.text, arrlenu(list.text)), NULL,
                                      &value, NULL) == MS_OK) {
        ms_json_iter it = ms_json_iterate(value);
        while (code == FINE && ms_json_next(&it)) {
            ms_str message = text_of(arena, member(it.value, "id"));
            if (message.len == 0 || memchr(message.ptr, '/', message.len) != NULL) {
                complain("%s: a message without an id; left out", u->path);
                g->damaged = true;
                continue;
            }
            char *parts = folder_in(u->root, "part", message);
            grow_text(g, first ? "{\"info\":" : ",{\"info\":");
            grow(g, it.value.ptr, it.value.len);
            grow_text(g, ",\"parts\":[");
            code = grow_folder(g, parts, "", "", ",");
            grow_text(g, "]}");
            free(parts);
            first = false;
        }
    }
    grow_text(g, "]}");
    arrfree(list.text);
    g->damaged = g->damaged || list.damaged;
    return code;
}

int rows_load(file_text *f, const char *path, const char *session)
{
    int code = database_load(f, path, session);
    bool rows = code == FINE && !is_database(f->text) && f->text.len > 0;
    if (!rows || session != NULL || format_of(f->text, true) != NULL) return code;
    complain("%s: its tables are named as a known program's, but no reader knows their "
             "rows", path);
    return FAILED;
}

/* Makes what is left out the text of a file. */
static void lost_load(const unit_lost *l, file_text *f)
{
    enum { WORDS = 1200 };
    file_free(f);
    f->buf = malloc(WORDS);
    if (f->buf == NULL) exit(no_memory());
    describe_lost(l, f->buf, WORDS);
    f->cap = WORDS;
    f->text = ms_str_of(f->buf);
}

int unit_load(const unit *u, file_text *f)
{
    if (u->lost != NULL) {
        lost_load(u->lost, f);
        return FINE;
    }
    growing g = {NULL, false};
    ms_str info;
    ms_arena arena = {0};
    int code = FINE;
    if (!u->events) code = file_load(f, u->path);
    if (is_read(code) && is_database(f->text)) {
        int loaded = rows_load(f, u->path, u->session);
        if (loaded != FINE) return loaded;
    }
    if (!is_read(code) || (!u->events && u->root == NULL)) return code;
    g.damaged = code == DAMAGED;
    code = FINE;
    if (u->events) {
        code = grow_folder(&g, u->path, "", "\n", "");
    } else if (grown_value(&g, u->path, f->text, &arena, &info)) {
        code = grow_session(&g, u, info, &arena);
    }
    if (code == FINE && g.damaged) code = DAMAGED;
    ms_arena_deinit(&arena);
    size_t len = arrlenu(g.text);
    file_free(f);
    f->buf = malloc(len + 1);
    if (f->buf == NULL) exit(no_memory());
    if (len > 0) memcpy(f->buf, g.text, len);
    f->cap = len + 1;
    f->text = ms_str_n(f->buf, len);
    arrfree(g.text);
    return code;
}
