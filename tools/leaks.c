/* Secrets in a log. The search covers every record as it was written: messages, also
 * hidden ones, earlier text of amended messages, parts of streams, notes, facts of
 * locations, names. It also covers what crashes leave: the bytes of a torn append, and
 * the files PATH.torn and PATH.compacting.
 *
 *   now       a message that views show, in its present form
 *   hidden    a message that no view shows
 *   parts     text of a stream whose message has another text now
 *   earlier   text that an amendment has replaced, or facts that were set again
 *   note      of a message;  facts  of a location
 *   torn      bytes after the last append;  beside  a file beside the log
 *
 * Erasing (ms_redact) removes all text of a message from the file, notes and earlier
 * text included. Ids and other names stay, and notes of the kind "usage": such messages
 * are hidden, too, and msgstore compact leaves them out. Masking amends the message; its
 * earlier text stays in the file until msgstore compact. Facts are masked in both cases.
 * Afterwards the log is searched once more, and what is left is reported. */

#define _GNU_SOURCE
#include "files.h"
#include "leaks.h"
#include "secrets.h"
#include "sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lower-case names of fields, by their numbers. */
static const char *const field_names[MS_FIELD_COUNT] = {
    "",
#define MS__X(number, name, member, kind) #member,
    MS_FIELDS(MS__X)
#undef MS__X
};

/* Fields that a redaction keeps. */
#define NAMES                                                                         \
    (1u << MS_F_LOCATION | 1u << MS_F_AGENT_KEY | 1u << MS_F_TURN_ID | 1u << MS_F_ID | \
     1u << MS_F_KEY | 1u << MS_F_CALL_ID | 1u << MS_F_TOOL | 1u << MS_F_TYPE_NAME |    \
     1u << MS_F_ROLE_NAME)

typedef enum state {
    NOW, HIDDEN, PARTS, EARLIER, NOTE, FACTS, TORN, BESIDE, STATES
} state;

static const char *const state_words[STATES] = {
    "now", "hidden", "parts", "earlier", "note", "facts", "torn", "beside",
};

/* What removes the secrets of a message, or of a location: bits. */
enum { ERASE = 1, HIDE = 2, MASK_FACTS = 4, MOVE_FACTS = 8 };

typedef struct leaking {
    uint64_t key;             /* number of a message */
    unsigned value;
} leaking;

/* Files that a killed process leaves beside the log. */
static const char *const beside[] = {".torn", ".compacting"};

enum { NAME_MOST = 255 }; /* bytes of a name in a folder */

typedef struct leaks {
    job *job;
    unsigned classes;
    bool quiet;               /* only count */
    output out;
    ms_arena scratch;         /* of the current record */
    tally kinds;              /* of secrets */
    leaking *messages;        /* with secrets; an stb_ds map, in the order of the log */
    leaking *streams;         /* numbers of those whose parts were looked at */
    tally places;             /* locations with secrets in facts or name; count: bits */
    tally looked;             /* locations whose facts were read; count: they have some */
    tally present;            /* secrets in present facts: location, NUL, secret */
    uint64_t found, in_state[STATES];
    uint64_t kept;            /* of them, those that compact would keep */
    uint64_t in_file[COUNT_OF(beside)];
    int code;                 /* other than FINE: it was reported, and the search ends */
} leaks;

static void mark_message(leaks *l, uint64_t seq, unsigned bits)
{
    leaking *row = hmgetp_null(l->messages, seq);
    if (row != NULL) row->value |= bits;
    else hmput(l->messages, seq, bits);
}

static void mark_place(leaks *l, ms_str location, unsigned bits)
{
    tally_row *row = tally_row_of(&l->places, location);
    if (row == NULL) l->code = no_memory();
    else row->count |= bits;
}

/* Prints one line a secret: "17  now  content  github-token  ghp_..., 40 characters" */
static void print_leak(leaks *l, uint64_t seq, state where, const char *field,
                       const secret *s)
{
    char hint[SECRET_HINT], number[24] = "-", clean[CELL_BYTES];
    cell c = cell_over(clean, sizeof clean, 60);
    if (seq > 0) snprintf(number, sizeof number, "%" PRIu64, seq);
    cell_put(&c, ms_str_of(secret_hint(s, hint)));
    emit_format(&l->out, "%8s  %-8s %-11s %-20s ", number, state_words[where], field,
                s->kind);
    emit(&l->out, c.buf, c.len);
    emit_text(&l->out, "\n");
}

static void count_leak(leaks *l, uint64_t seq, state where, const char *field,
                       const secret *s)
{
    tally_row *row = tally_row_of(&l->kinds, ms_str_of(s->kind));
    if (row != NULL) row->count++;
    l->found++;
    l->in_state[where]++;
    if (!l->quiet) print_leak(l, seq, where, field, s);
}

/* Returns the secrets of a value, in the scratch arena. */
static secret_list secrets_of(leaks *l, ms_value value)
{
    secret_list list;
    if (!secrets_find(value, l->classes, &l->scratch, &list)) l->code = no_memory();
    return list;
}

/* Returns the number of secrets. */
static size_t look_at(leaks *l, uint64_t seq, state where, const char *field,
                      ms_value value)
{
    secret_list list = secrets_of(l, value);
    for (size_t i = 0; i < list.count; i++) {
        count_leak(l, seq, where, field, &list.items[i]);
    }
    return list.count;
}

/* Returns a field as it is searched: what a format keeps is JSON after a head. */
static ms_value searched(const ms_msg *msg, ms_field field)
{
    enum { HEAD = 3 };
    ms_value v = ms_get(msg, field);
    if (field != MS_F_SOURCE || v.text.ptr == NULL || v.text.len <= HEAD) return v;
    return ms_json(ms_str_n(v.text.ptr + HEAD, v.text.len - HEAD));
}

/* Returns what removes the secrets of a message in this form; 0: it has none. */
static unsigned look_at_message(leaks *l, const ms_msg *msg, state where)
{
    unsigned bits = 0;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_value v = searched(msg, (ms_field)f);
        if (v.text.ptr == NULL) continue;
        size_t n = look_at(l, ms_seq(msg), where, field_names[f], v);
        if (n == 0) continue;
        bits |= (NAMES >> f & 1) != 0 ? HIDE : ERASE;
        if (where == NOW) l->kept += n;
    }
    return bits;
}

/* Sets *now to the present form of a message. Returns whether views show it. */
static bool is_shown(leaks *l, uint64_t seq, const ms_msg **now)
{
    ms_error err;
    *now = NULL;
    ms_result result = get_shown(l->job->store, seq, &l->scratch, now, &err);
    if (result == MS_OK || result == MS_E_NOT_FOUND || result == MS_E_HIDDEN ||
        result == MS_E_DAMAGED) return result == MS_OK;
    l->code = complain_of("reading a message", result, &err);
    return false;
}

static bool is_streaming(const ms_msg *msg)
{
    return ms_kind_of(msg) == MS_KIND_MESSAGE &&
           (ms_flags(msg) & (MS_FLAG_UNFINISHED | MS_FLAG_AMENDED)) == MS_FLAG_UNFINISHED;
}

/* Returns whether two records are one form of a message. A store may have copied them. */
static bool is_same_form(const ms_msg *a, const ms_msg *b)
{
    bool same = ms_kind_of(a) == ms_kind_of(b);
    for (unsigned f = 1; f < MS_FIELD_COUNT && same && a != b; f++) {
        ms_value v = ms_get(a, (ms_field)f), w = ms_get(b, (ms_field)f);
        same = v.json == w.json && ms_str_equal(v.text, w.text);
    }
    return same;
}

/* Looks at a message, or at one of its earlier forms. An unfinished one has the text so
 * far. */
static void look_at_words(leaks *l, const ms_msg *msg)
{
    const ms_msg *now;
    bool shown = is_shown(l, ms_seq(msg), &now), streaming = shown && is_streaming(now);
    bool present = streaming || (shown && is_same_form(now, msg));
    state where = !shown ? HIDDEN : present ? NOW : EARLIER;
    unsigned bits = look_at_message(l, streaming ? now : msg, where);
    if (bits != 0 && where != EARLIER) mark_message(l, ms_seq(msg), bits);
}

/* Reads the text of a stream: that of its beginning, and the parts. *field: which field
 * of the message has it. */
static void read_stream(leaks *l, ms_str location, uint64_t seq, ms_field *field,
                        ms_buf *out)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    ms_error err;
    bool good = true;
    *field = MS_F_CONTENT;
    q.location = location;
    q.about_seq = seq;
    q.raw = MS_RAW_MESSAGES | MS_RAW_PARTS;
    ms_query_open(l->job->store, &q, &it, &err); /* closing reports a failure */
    while ((msg = ms_next(&it)) != NULL) {
        bool call = ms_type_of(msg) == MS_T_ACTION;
        if (call) *field = MS_F_ARGS;
        ms_str text = ms_get(msg, call ? MS_F_ARGS : MS_F_CONTENT).text;
        good = good && ms_buf_write(out, text.ptr, text.len) == MS_OK;
    }
    ms_result result = ms_cursor_close(&it, &err);
    if (!good) l->code = no_memory();
    else if (result != MS_OK && result != MS_E_DAMAGED) {
        l->code = complain_of("reading a stream", result, &err);
    }
}

/* Looks at the text of a stream at its first part, unless its message shows that text. */
static void look_at_stream(leaks *l, const ms_msg *msg)
{
    const ms_msg *now;
    ms_field field;
    uint64_t seq = ms_seq(msg);
    ms_buf buf = {&l->scratch, NULL, 0, 0};
    if (hmgetp_null(l->streams, seq) != NULL) return;
    hmput(l->streams, seq, 0);
    bool shown = is_shown(l, seq, &now);
    if (shown && is_streaming(now)) return;
    read_stream(l, location_of(msg), seq, &field, &buf);
    ms_str text = ms_buf_text(&buf);
    if (shown && ms_str_equal(ms_get(now, field).text, text)) return;
    size_t n = look_at(l, seq, shown ? PARTS : HIDDEN, field_names[field],
                       ms_text_n(text));
    if (n > 0) mark_message(l, seq, ERASE);
}

/* A redaction keeps the kinds of notes, and usage notes. */
static void look_at_note(leaks *l, const ms_msg *msg)
{
    const ms_msg *now;
    ms_str kind = ms_get(msg, MS_F_TYPE_NAME).text;
    size_t named = look_at(l, ms_seq(msg), NOTE, "type_name", ms_text_n(kind));
    size_t n = look_at(l, ms_seq(msg), NOTE, "content", ms_content(msg));
    if (named + n == 0) return;
    bool usage = ms_str_equal(kind, MS_STR("usage"));
    mark_message(l, ms_seq(msg), named > 0 || usage ? HIDE | ERASE : ERASE);
    if (is_shown(l, ms_seq(msg), &now)) l->kept += named + n;
}

static tally_row *present_row(leaks *l, ms_str location, ms_str text)
{
    ms_buf key = {&l->scratch, NULL, 0, 0};
    tally_row *row = NULL;
    if (ms_buf_write(&key, location.ptr, location.len) == MS_OK &&
        ms_buf_write(&key, "", 1) == MS_OK &&
        ms_buf_write(&key, text.ptr, text.len) == MS_OK) {
        row = tally_row_of(&l->present, ms_buf_text(&key));
    }
    if (row == NULL) l->code = no_memory();
    return row;
}

/* Reads the present facts of a location, once. Returns whether there are any. */
static bool read_facts(leaks *l, ms_str location)
{
    ms_error err;
    ms_str facts = {NULL, 0};
    size_t before = arrlenu(l->looked.rows);
    tally_row *row = tally_row_of(&l->looked, location);
    if (row == NULL) l->code = no_memory();
    if (row == NULL || arrlenu(l->looked.rows) == before) {
        return row != NULL && row->count > 0;
    }
    ms_result result =
        ms_location_get(l->job->store, location, &l->scratch, &facts, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) {
        l->code = complain_of("reading facts", result, &err);
    }
    row->count = facts.ptr != NULL && !ms_str_equal(facts, MS_STR("{}"));
    if (row->count == 0) return false;
    secret_list list = secrets_of(l, ms_json(facts));
    for (size_t i = 0; i < list.count; i++) {
        tally_row *known = present_row(l, location, list.items[i].text);
        if (known != NULL) known->count = 1;
    }
    return true;
}

/* Looks at a record of facts. Its secrets are present ones or replaced. */
static void look_at_facts(leaks *l, const ms_msg *msg)
{
    ms_str location = location_of(msg);
    size_t before = arrlenu(l->looked.rows);
    secret_list list = secrets_of(l, ms_text_n(location));
    bool any = list.count > 0 && read_facts(l, location);
    bool first = arrlenu(l->looked.rows) > before;
    for (size_t i = 0; i < list.count && first; i++) {
        count_leak(l, 0, any ? FACTS : EARLIER, "location", &list.items[i]);
    }
    if (any && first) l->kept += list.count;
    if (any) mark_place(l, location, MOVE_FACTS);
    list = secrets_of(l, ms_content(msg));
    if (list.count == 0) return;
    read_facts(l, location);
    for (size_t i = 0; i < list.count; i++) {
        const tally_row *row = present_row(l, location, list.items[i].text);
        bool now = row != NULL && row->count > 0;
        count_leak(l, 0, now ? FACTS : EARLIER, "content", &list.items[i]);
        if (!now) continue;
        l->kept++;
        mark_place(l, location, MASK_FACTS);
    }
}

static void look_at_record(leaks *l, const ms_msg *msg)
{
    ms_arena_reset(&l->scratch);
    switch (ms_kind_of(msg)) {
    case MS_KIND_MESSAGE:
    case MS_KIND_AMEND: look_at_words(l, msg); break;
    case MS_KIND_LOCATION: look_at_facts(l, msg); break;
    case MS_KIND_NOTE: look_at_note(l, msg); break;
    case MS_KIND_PART: look_at_stream(l, msg); break;
    default: break;
    }
}

/* Replaces each name of a location by the only full name that contains it. */
static int resolve_locations(job *j)
{
    ms_listing list;
    const options *o = j->options;
    ms_str all = {NULL, 0}, name;
    int code = look_up(j, false, all, all, &list);
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        code = resolve(j, &list, o->locations[i], &name);
        if (code == FINE) o->locations[i] = name;
    }
    return code;
}

static int look_at_records(leaks *l)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    listing all = {l->job->store, &q, NULL, NULL, NULL};
    q.raw = MS_RAW_ALL;
    int code = listing_open(&all, &it);
    if (code != FINE) return code;
    while (l->code == FINE && (msg = ms_next(&it)) != NULL) {
        if (is_wanted(l->job->options, location_of(msg))) look_at_record(l, msg);
    }
    code = listing_close(&it);
    return l->code != FINE ? l->code : code;
}


/* ---- Bytes that no record has ------------------------------------------------------ */

/* Searches an open file from a place on, a piece at a time. A secret of at most OVERLAP
 * bytes is whole in one piece. */
static size_t search_file(leaks *l, int file, const char *path, uint64_t from,
                          state where, const char *name)
{
    enum { STEP = 1 << 20, OVERLAP = 1 << 14 };
    size_t n = 0, len = 0;
    char *bytes = malloc(STEP + OVERLAP);
    if (bytes == NULL) l->code = no_memory();
    for (bool more = bytes != NULL; more && l->code == FINE;) {
        bool there = lseek(file, (off_t)(from + len), SEEK_SET) >= 0;
        ssize_t got = there ? read(file, bytes + len, STEP + OVERLAP - len) : -1;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            complain("%s: cannot read: %s", path, strerror(errno));
            l->code = FAILED;
        }
        if (got > 0) len += (size_t)got;
        if (got > 0 && len < STEP + OVERLAP) continue;
        more = got > 0;
        ms_arena_reset(&l->scratch);
        secret_list list = secrets_of(l, ms_text_n(ms_str_n(bytes, len)));
        for (size_t i = 0; i < list.count; i++) {
            if (more && list.items[i].at >= STEP) continue;
            count_leak(l, 0, where, name, &list.items[i]);
            n++;
        }
        size_t kept = len > STEP ? len - STEP : 0;
        memmove(bytes, bytes + len - kept, kept);
        from += len - kept;
        len = kept;
    }
    free(bytes);
    return n;
}

static int look_at_bytes(leaks *l, const char *path, uint64_t from, state where,
                         const char *name, uint64_t *n)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return FINE;
    if (file < 0) {
        complain("%s: %s", path, strerror(errno));
        return FAILED;
    }
    *n += search_file(l, file, path, from, where, name);
    close(file);
    return l->code;
}

/* Returns where the name of a path begins. */
static size_t name_at(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Returns whether a name in a folder is that of a log, shortened, with an ending. A name
 * of more than NAME_MOST bytes ends with '-' and a hash; no character is divided. */
static bool is_shortened(const char *name, const char *log, const char *ending)
{
    enum { HASH = 16, CHARACTER = 4 };
    size_t n = strlen(name), more = strlen(ending), most = NAME_MOST - more - HASH - 1;
    if (strlen(log) <= NAME_MOST - more || n < more + HASH + 1) return false;
    size_t kept = n - more - HASH - 1;
    return kept <= most && kept + CHARACTER > most && strncmp(name, log, kept) == 0 &&
           name[kept] == '-' && strspn(name + kept + 1, "0123456789abcdef") == HASH &&
           strcmp(name + n - more, ending) == 0;
}

/* Looks at a file whose name is shortened: there it can be that of another log, too,
 * whose name begins as this one does. */
static int look_shortened(leaks *l, const char *log, const char *link, size_t which)
{
    size_t at = name_at(log);
    char *path = malloc(at + NAME_MOST + 2), *other = malloc(name_at(link) + 2);
    int code = path == NULL || other == NULL ? no_memory() : FINE;
    DIR *dir = NULL;
    if (code == FINE) {
        sprintf(path, "%.*s.", (int)at, log);
        sprintf(other, "%.*s.", (int)name_at(link), link);
        bool again = log != link && strcmp(log + at, link + name_at(link)) == 0 &&
                     same_file(path, other);
        if (!again) dir = opendir(path);
        if (!again && dir == NULL && errno != ENOENT) {
            complain("%s: %s", path, strerror(errno));
            code = FAILED;
        }
    }
    for (struct dirent *e; code == FINE && dir != NULL && (e = readdir(dir)) != NULL;) {
        if (!is_shortened(e->d_name, log + at, beside[which])) continue;
        snprintf(path + at, NAME_MOST + 2, "%s", e->d_name);
        code = look_at_bytes(l, path, 0, BESIDE, beside[which] + 1, &l->in_file[which]);
    }
    if (dir != NULL) closedir(dir);
    free(path);
    free(other);
    return code;
}

/* Looks at a file beside the log. link: a name of the log's file, perhaps the other. */
static int look_beside(leaks *l, const char *log, const char *link, size_t which)
{
    size_t len = strlen(beside[which]);
    if (strlen(log + name_at(log)) + len > NAME_MOST)
        return look_shortened(l, log, link, which);
    char *path = malloc(strlen(log) + len + 1), *seen = malloc(strlen(link) + len + 1);
    int code = path == NULL || seen == NULL ? no_memory() : FINE;
    if (code == FINE) {
        sprintf(path, "%s%s", log, beside[which]);
        sprintf(seen, "%s%s", link, beside[which]);
        bool again = log != link && same_file(path, seen);
        if (!again) code = look_at_bytes(l, path, 0, BESIDE, beside[which] + 1,
                                         &l->in_file[which]);
    }
    free(path);
    free(seen);
    return code;
}

/* Looks at the bytes of a torn append, and at the files beside the log. */
static int look_outside(leaks *l)
{
    ms_log_info info;
    ms_error err;
    uint64_t n = 0;
    const char *path = l->job->options->files[0];
    if (!l->job->log) return FINE;
    int code = FINE;
    ms_result result = ms_log_stat(l->job->store, &info, &err);
    if (result != MS_OK) code = complain_of("looking at the log", result, &err);
    else code = look_at_bytes(l, path, info.end, TORN, "bytes", &n);
    char *real = realpath(path, NULL);
    for (size_t i = 0; i < COUNT_OF(beside) && code == FINE; i++) {
        code = look_beside(l, path, path, i);
        if (code == FINE && real != NULL) code = look_beside(l, real, path, i);
    }
    free(real);
    return code;
}

static int look_at_all(leaks *l)
{
    int code = look_at_records(l);
    int outside = is_read(code) ? look_outside(l) : FINE;
    return outside == FINE ? code : outside;
}


/* ---- Removing secrets from the log ------------------------------------------------- */

/* Adds the member "name": value to an object. */
static void put_fact(leaks *l, ms_json_writer *w, ms_str key, ms_str value)
{
    ms_str name;
    if (ms_json_string(key, &l->scratch, &name) != MS_OK) return;
    ms_json_key(w, name);
    ms_json_put_raw(w, value);
}

static bool has_secret_in(const secret_list *list, ms_str text, ms_str value)
{
    size_t from = (size_t)(value.ptr - text.ptr);
    bool any = false;
    for (size_t i = 0; i < list->count && !any; i++) {
        any = list->items[i].at >= from && list->items[i].at < from + value.len;
    }
    return any;
}

/* Writes the members that change facts into masked ones. A name that has a secret is
 * removed. A number cannot be masked: the value around it is replaced. */
static bool put_masked(leaks *l, ms_str facts, ms_json_writer *w)
{
    ms_value masked;
    secret_list left;
    if (!secrets_mask(ms_json(facts), l->classes, &l->scratch, NULL, NULL, &masked) ||
        !secrets_find(masked, l->classes, &l->scratch, &left)) {
        return false;
    }
    ms_json_iter was = ms_json_iterate(facts), is = ms_json_iterate(masked.text);
    while (ms_json_next(&was) && ms_json_next(&is)) {
        bool renamed = !ms_str_equal(was.key, is.key);
        bool number = has_secret_in(&left, masked.text, is.value);
        if (renamed) put_fact(l, w, was.key, MS_STR("null"));
        if (!renamed && !number && ms_str_equal(was.value, is.value)) continue;
        put_fact(l, w, is.key, number ? MS_STR("\"[masked]\"") : is.value);
    }
    return true;
}

/* Changes the facts of a location: masks them, or (all) removes them. */
static int change_facts(leaks *l, ms_str location, ms_str facts, bool all)
{
    ms_error err;
    ms_json_writer w;
    ms_buf buf = {&l->scratch, NULL, 0, 0};
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_iter it = ms_json_iterate(facts);
    while (all && ms_json_next(&it)) put_fact(l, &w, it.key, MS_STR("null"));
    bool good = all || put_masked(l, facts, &w);
    ms_json_end(&w);
    if (!good || ms_json_finish(&w) != MS_OK) return no_memory();
    ms_result result =
        ms_location_set(l->job->store, location, ms_buf_text(&buf), &err);
    return result == MS_OK ? FINE : complain_of("setting facts", result, &err);
}

/* Masks the facts of a location. If its name has a secret, the facts of a file that was
 * synced move to another name. Other facts are removed, as the messages are hidden; where
 * those are only masked they stay. */
static int mask_facts(leaks *l, const tally_row *place)
{
    ms_error err;
    ms_str facts;
    char other[MS_KEY_MAX + 1];
    bool move = (place->count & MOVE_FACTS) != 0;
    ms_arena_reset(&l->scratch);
    ms_result result =
        ms_location_get(l->job->store, place->text, &l->scratch, &facts, &err);
    if (result != MS_OK) return complain_of("reading facts", result, &err);
    ms_str to = move ? sync_other_name(place->text, facts, other) : ms_str_of(NULL);
    if (to.ptr != NULL) {
        ms_value masked;
        if (!secrets_mask(ms_json(facts), l->classes, &l->scratch, NULL, NULL, &masked)) {
            return no_memory();
        }
        result = ms_location_set(l->job->store, to, masked.text, &err);
        if (result != MS_OK) return complain_of("setting facts", result, &err);
    }
    bool all = to.ptr != NULL || (move && !GIVEN(l->job->options, MASK_SECRETS));
    return change_facts(l, place->text, facts, all);
}

static void count_secret(void *ctx, const secret *found)
{
    (void)found;
    ++*(uint64_t *)ctx;
}

/* Sets *done if the secrets of the message are masked now. Hidden messages cannot be
 * amended, and notes never. */
static int mask_message(leaks *l, uint64_t seq, bool *done)
{
    ms_error err;
    const ms_msg *msg;
    uint64_t n = 0;
    *done = false;
    ms_arena_reset(&l->scratch);
    ms_result result = get_shown(l->job->store, seq, &l->scratch, &msg, &err);
    if (result == MS_E_NOT_FOUND) return FINE;
    if (result != MS_OK) return complain_of("reading a message", result, &err);
    ms_envelope m = ms_envelope_of(msg);
    if (!secrets_mask_message(&m, l->classes, &l->scratch, count_secret, &n)) {
        return no_memory();
    }
    if (n == 0) return FINE;
    result = ms_amend(l->job->store, seq, &m, &err);
    if (result != MS_OK) return complain_of("masking a message", result, &err);
    *done = true;
    return FINE;
}

static int mask_all(leaks *l)
{
    uint64_t masked = 0, kept = 0;
    int code = FINE;
    for (size_t i = 0; i < hmlenu(l->messages) && code == FINE; i++) {
        bool done;
        code = mask_message(l, l->messages[i].key, &done);
        if (done) masked++;
        else kept++;
    }
    emit_format(&l->out, "masked     %" PRIu64 " message%s\n", masked, plural(masked));
    if (kept > 0) {
        emit_format(&l->out, "kept       %" PRIu64 " message%s, hidden or with secrets "
                    "in notes, names or parts\n           of streams: --apply without "
                    "--mask-secrets erases or hides them\n", kept, plural(kept));
    }
    return code;
}

/* Erases a message, hides it, or both. What is damaged counts as erased. */
static ms_result erase_message(leaks *l, const leaking *m, uint64_t *erased,
                               uint64_t *hid, ms_error *err)
{
    ms_store *store = l->job->store;
    ms_result result = MS_OK, shown = MS_E_HIDDEN;
    if ((m->value & ERASE) != 0) result = ms_redact(store, m->key, err);
    if (result != MS_OK && result != MS_E_DAMAGED) return result;
    *erased += (m->value & ERASE) != 0;
    if ((m->value & HIDE) != 0) {
        ms_error other;
        shown = ms_hide(store, m->key, &other);
        if (shown != MS_OK && shown != MS_E_HIDDEN && shown != MS_E_NOT_FOUND) {
            *err = other;
            return shown;
        }
    }
    *hid += shown == MS_OK;
    return result;
}

static int erase_all(leaks *l)
{
    ms_error err;
    uint64_t erased = 0, hid = 0;
    ms_result worst = MS_OK;
    for (size_t i = 0; i < hmlenu(l->messages); i++) {
        ms_result result = erase_message(l, &l->messages[i], &erased, &hid, &err);
        if (result != MS_OK) worst = result;
        if (result != MS_OK && result != MS_E_DAMAGED) break;
    }
    emit_format(&l->out, "erased     %" PRIu64 " message%s\n", erased, plural(erased));
    if (hid > 0) {
        emit_format(&l->out, "hid        %" PRIu64 " message%s with secrets in ids or "
                    "names\n", hid, plural(hid));
    }
    return worst == MS_OK ? FINE : complain_of("erasing", worst, &err);
}

static int apply(leaks *l)
{
    ms_error err;
    int code = GIVEN(l->job->options, MASK_SECRETS) ? mask_all(l) : erase_all(l);
    for (size_t i = 0; i < arrlenu(l->places.rows) && code == FINE; i++) {
        code = mask_facts(l, &l->places.rows[i]);
    }
    ms_result result = ms_sync(l->job->store, NULL, &err);
    if (code == FINE && result != MS_OK) code = complain_of("syncing", result, &err);
    return code;
}

static void print_sum(leaks *l)
{
    uint64_t earlier = l->in_state[EARLIER];
    emit_format(&l->out, "found      %" PRIu64 " in %zu message%s", l->found,
                hmlenu(l->messages), plural(hmlenu(l->messages)));
    for (size_t i = 0; i < arrlenu(l->kinds.rows); i++) {
        const tally_row *row = &l->kinds.rows[i];
        emit_format(&l->out, "%s %" PRIu64 " %.*s", i == 0 ? ":" : ",", row->count,
                    (int)row->text.len, row->text.ptr);
    }
    emit_text(&l->out, "\n");
    if (earlier > 0) {
        emit_format(&l->out, "earlier    %" PRIu64 " of them no message has now: "
                    "msgstore compact leaves them out\n", earlier);
    }
}

/* Prints the command that rewrites a log; log: as a word of a shell. */
static void put_compact(output *out, const char *log, const char *then)
{
    emit_text(out, "msgstore compact ");
    emit_visible(out, log);
    emit_text(out, " ");
    emit_visible(out, log);
    emit_format(out, " --replace %s\n", then);
}

/* Prints what is still there after all was done. Returns FAILED if there is any. */
static int print_left(leaks *l)
{
    bool masking = GIVEN(l->job->options, MASK_SECRETS);
    const char *path = l->job->options->files[0];
    const char *log = shell_word(&l->job->arena, path);
    uint64_t compacted = l->found - l->kept - l->in_state[BESIDE];
    if (compacted > 0) {
        emit_format(&l->out, "left       %" PRIu64 " in the file, in earlier text, names "
                    "of hidden messages, or torn bytes:\n           ", compacted);
        put_compact(&l->out, log, "leaves them out");
    }
    if (l->kept > 0) {
        emit_format(&l->out, "left       %" PRIu64 " that views show%s\n", l->kept,
                    masking ? ": --apply without --mask-secrets" : "");
    }
    for (size_t i = 0; i < COUNT_OF(beside); i++) {
        if (l->in_file[i] == 0) continue;
        emit_format(&l->out, "left       %" PRIu64 " in ", l->in_file[i]);
        emit_visible(&l->out, path);
        emit_format(&l->out, "%s: ", beside[i]);
        if (i == 0) emit_text(&l->out, "remove that file\n");
        else put_compact(&l->out, log, "removes it");
    }
    if (l->found > 0) {
        emit_text(&l->out, "files      transcripts that were synced from still have "
                           "theirs: only the log is changed\n");
    }
    return l->found > 0 ? FAILED : FINE;
}

static void begin(leaks *l, job *j, bool quiet)
{
    memset(l, 0, sizeof *l);
    l->job = j;
    l->quiet = quiet;
    l->out.file = stdout;
    l->classes = GIVEN(j->options, PERSONAL) ? SECRETS_PERSONAL : SECRETS_KEYS;
}

static void end(leaks *l)
{
    hmfree(l->messages);
    hmfree(l->streams);
    tally_free(&l->kinds);
    tally_free(&l->places);
    tally_free(&l->looked);
    tally_free(&l->present);
    ms_arena_deinit(&l->scratch);
}

/* Removes what was found, and searches once more. */
static int apply_and_look(leaks *l)
{
    leaks after;
    int code = apply(l);
    if (!is_read(code)) return code;
    begin(&after, l->job, true);
    int looked = look_at_all(&after);
    int left = is_read(looked) ? print_left(&after) : FINE;
    end(&after);
    if (code == FINE) code = looked;
    return code == FINE ? left : code;
}

int redact_secrets(job *j)
{
    leaks l;
    const options *o = j->options;
    begin(&l, j, false);
    int code = resolve_locations(j);
    if (code == FINE) code = look_at_all(&l);
    if (is_read(code)) print_sum(&l);
    bool any = hmlenu(l.messages) + arrlenu(l.places.rows) > 0;
    if (code == FINE && GIVEN(o, APPLY)) code = any ? apply_and_look(&l) : print_left(&l);
    if (code == FINE && any && !GIVEN(o, APPLY)) {
        emit_text(&l.out, "--apply erases these messages, and hides those with secrets "
                          "in ids or names;\n--mask-secrets --apply masks the secrets "
                          "alone.\n");
    }
    if (code == DAMAGED && GIVEN(o, APPLY)) {
        emit_text(&l.out, "unchanged  since parts of it cannot be read: msgstore repair "
                          "IN OUT comes first\n");
    }
    code = output_end(&l.out, code);
    end(&l);
    return code;
}
