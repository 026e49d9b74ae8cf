/* See intake.h. */

#define _GNU_SOURCE
#include "intake.h"
#include "database.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tally_words(const tally *t, char *out, size_t size)
{
    size_t len = 0, n = arrlenu(t->rows), i = 0;
    out[0] = 0;
    for (; i < n && len + 120 < size; i++) {
        const tally_row *row = &t->rows[i];
        len += (size_t)snprintf(out + len, size - len, "%s%" PRIu64 " %.*s",
                                len > 0 ? ", " : "", row->count,
                                row->text.len < 60 ? (int)row->text.len : 60,
                                row->text.ptr);
    }
    if (i < n) snprintf(out + len, size - len, ", and %zu more", n - i);
}

static void complain_of_tally(const char *path, const char *what, const tally *t)
{
    char text[1024];
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (arrlenu(t->rows) == 0) return;
    tally_words(t, text, sizeof text);
    complain("%s: %s: %s", name, what, text);
}

void complain_of_unknown(const counts *c, const char *path)
{
    complain_of_tally(path, "unknown, kept whole", &c->others);
}

void complain_of_repaired(counts *c, const char *path)
{
    if (c->repaired == 0) return;
    complain("%s: bad UTF-8 was replaced by U+FFFD in %" PRIu64 " entr%s",
             strcmp(path, "-") == 0 ? "standard input" : path, c->repaired,
             c->repaired == 1 ? "y" : "ies");
    c->repaired = 0;
}

/* Reports on standard error what was left out, and what is unknown. all: also what is
 * known to be no message. */
static void complain_of_counts(const counts *c, const char *path, bool all)
{
    if (all) complain_of_tally(path, "left out what is not a message", &c->left_out);
    complain_of_tally(path, "left out, empty or incomplete", &c->incomplete);
    complain_of_unknown(c, path);
}

void counts_free(counts *c)
{
    tally_free(&c->others);
    tally_free(&c->left_out);
    tally_free(&c->incomplete);
}

/* The state of reading a ZIP member by member. */
typedef struct zip_reading {
    const intake *in;
    trace *t;
    const char *path;
    int code;
} zip_reading;

static int take_member(void *ctx, const char *name, ms_str text)
{
    zip_reading *z = ctx;
    uint64_t done;
    ms_str value;
    const fileformat *f = format_of(text, true);
    int code = FINE;
    if (f != NULL) {
        code = format_read(f, text, z->t, z->path, z->in->options, z->in->counts, false,
                           &done);
    } else if (ms_json_check(text, NULL, &value, NULL) == MS_OK) {
        complain("%s: %s: its format is not known; left out", z->path, name);
        z->in->counts->bad_lines++;
        code = GIVEN(z->in->options, REFUSE) ? FAILED : DAMAGED;
    } else if (z->in->messages == NULL) { /* sync */
        complain("%s: %s: is not complete JSON; left out", z->path, name);
        z->in->counts->bad_lines++;
        z->code = DAMAGED;
    } else { /* of a damaged file the messages are read */
        code = read_input(z->in->options, z->path, &text, -1, z->in->messages);
    }
    if (code == DAMAGED) z->code = code;
    return code == DAMAGED ? FINE : code;
}

int take_transcript(const intake *in, const fileformat *f, ms_str text, const char *path,
                    const trace_known *known, uint64_t before, trace **out,
                    uint64_t *done)
{
    trace_desc desc;
    int code;
    memset(&desc, 0, sizeof desc);
    desc.store = in->store;
    desc.options = in->options;
    desc.counts = in->counts;
    desc.format = f != NULL ? f->name : "inspect";
    desc.path = path;
    desc.tree = f != NULL ? f->tree : TREE_NONE;
    desc.guess_agent = in->guess_agent;
    desc.rename = in->rename;
    desc.known = *known;
    desc.done = before;
    desc.put = in->put;
    desc.ctx = in->ctx;
    desc.stored = in->stored;
    trace *t = trace_begin(&desc);
    *done = text.len;
    in->counts->files++;
    in->counts->bytes += text.len;
    if (f != NULL) {
        bool grows = in->messages == NULL && !in->whole; /* sync: it is being written */
        code = format_read(f, text, t, path, in->options, in->counts, grows, done);
    } else {
        zip_reading z = {in, t, path, FINE};
        code = zip_each(path, text, "samples/", &z, take_member);
        if (code == FINE) code = z.code;
    }
    if (!is_read(code)) trace_fail(t, code);
    int ended = trace_end(t);
    if (ended != FINE) code = ended;
    *out = t;
    return code;
}

static int take_whole(const intake *in, const fileformat *f, ms_str text,
                      const char *path)
{
    trace *t = NULL;
    uint64_t done;
    const trace_known none = {NULL, NULL, 0, NULL};
    int code = take_transcript(in, f, text, path, &none, 0, &t, &done);
    trace_free(t);
    return code;
}

/* Returns the code for going on after a file was loaded. --strict refuses damage. */
static int after_load(const intake *in, int loaded)
{
    if (loaded != DAMAGED) return loaded;
    return GIVEN(in->options, REFUSE) ? FAILED : FINE;
}

/* Refuses a transcript of a program whose format is not read. */
static int refuse_foreign(const char *path, ms_str text)
{
    const char *program = foreign_of(text);
    if (program == NULL) return FINE;
    complain("%s: not read: its format is that of %s", path, program);
    return FAILED;
}

/* Reads a file or standard input: transcripts completely, messages as they come. */
static int take_file(const intake *in, const char *path)
{
    file_text text = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    bool all, more, open = in->options->transcript == NULL && in->options->from == NULL;
    const fileformat *f = in->options->transcript;
    int loaded = file_load_head(&text, path, &all), code = loaded;
    if (code == FINE && open) f = format_of(text.text, all);
    bool packed = is_zip(text.text) || is_zstd(text.text) || is_database(text.text);
    bool unknown = code == FINE && open && f == NULL;
    more = !all && (f != NULL || packed || (open && format_hinted(text.text)));
    if (code == FINE && (more || packed)) {
        loaded = text.plain ? file_load(&text, path) : file_load_rest(&text, path);
        code = after_load(in, loaded);
        if (code == FINE && is_database(text.text)) {
            code = loaded = rows_load(&text, path, NULL);
        }
        if (open && f == NULL && !is_zip(text.text)) f = format_of(text.text, true);
    }
    if (unknown && code == FINE && f == NULL) code = refuse_foreign(path, text.text);
    if (code == FINE && is_zip(text.text)) {
        code = take_whole(in, NULL, text.text, path);
    } else if (code == FINE && f != NULL) {
        code = take_whole(in, f, text.text, path);
    } else if (code == FINE) {
        const ms_str *head = text.plain && !packed ? NULL : &text.text;
        int rest = packed ? -1 : text.pipe;
        text.pipe = 0; /* read_input closes it */
        code = read_input(in->options, path, head, rest, in->messages);
    }
    file_free(&text);
    return code != FINE ? code : loaded;
}

/* Files of a folder that are passed over, and the first of them. */
typedef struct passed_over {
    uint64_t n;
    const char *first;
} passed_over;

/* Reads a unit of a folder. A file without messages is not a transcript, and is
 * passed over. */
static int take_unit(const intake *in, const unit *u, file_text *f, passed_over *passed)
{
    int loaded = unit_load(u, f), code = after_load(in, loaded);
    if (code != FINE) return code;
    if (u->lost != NULL) {
        if (f->text.len > 0) complain("%s: left out %s", u->path, f->text.ptr);
        return FINE;
    }
    const fileformat *fmt = format_of(f->text, true);
    if (fmt == NULL && !is_zip(f->text)) {
        code = refuse_foreign(u->path, f->text);
        if (code != FINE) return code;
        if (!shows_messages(f->text)) {
            if (f->text.len > 0 && passed->n++ == 0) passed->first = u->path;
            return loaded;
        }
        code = read_input(in->options, u->path, &f->text, -1, in->messages);
    } else {
        code = take_whole(in, fmt, f->text, u->path);
    }
    return code != FINE ? code : loaded;
}

int take_path(const intake *in, const char *path)
{
    int worst = FINE;
    bool folder = is_folder(path);
    uint64_t others = 0;
    bool units_in = folder || strstr(path, "/session/") != NULL;
    unit *units = units_in ? units_of(path, &others) : NULL;
    bool tree = arrlenu(units) == 1 && units[0].root != NULL;
    complain_of_others(path, others);
    if (!folder && !tree) {
        units_free(units);
        worst = take_file(in, path);
    } else {
        file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
        passed_over passed = {0, NULL};
        for (size_t i = 0; i < arrlenu(units); i++) {
            int code = take_unit(in, &units[i], &f, &passed);
            /* the other files are read completely */
            if (code == FAILED || code == NOT_FOUND) code = DAMAGED;
            if (code != FINE) worst = code;
        }
        if (passed.n > 0) {
            complain("%s: passed over %" PRIu64 " file%s without messages, the first is "
                     "%s", path, passed.n, plural(passed.n), passed.first);
        }
        file_free(&f);
        units_free(units);
    }
    complain_of_counts(in->counts, path, in->rename); /* a conversion reports all
                                                       * counts */
    complain_of_repaired(in->counts, path);
    return worst;
}
