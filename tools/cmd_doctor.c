/* msgstore doctor: lists the faults of a transcript; --fix writes a repaired copy. */

#define _GNU_SOURCE
#include "commands.h"
#include "database.h"
#include "doctor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct examined {
    const options *options;   /* of the command */
    output *out;
    const char *path;
    const fileformat *format; /* NULL: messages without a transcript format, or damage
                               * that hides the format */
    diagnosis d;
    bool looked;              /* d is valid */
    bool cut;                 /* a compressed text that ends early */
    bool tree;                /* a folder, whose files are one transcript */
    ms_arena arena;
    ms_str mended;            /* a document, closed or in UTF-8; absent: not needed */
    finding torn, bad_text, packed; /* packed: of a ZIP, a tree, or zstd output */
    job inner;               /* the messages that a reader finds in the file, in memory */
    options one;
    char *files[2];
    finding open, lost;       /* calls, results by the numbers of messages */
    tally calls, results;     /* by "location id" */
    uint64_t messages;
} examined;


/* ---- The messages of the file ------------------------------------------------------ */

static void note_message(finding *f, uint64_t seq)
{
    if (f->count < FIRST_PLACES) f->lines[f->count] = seq;
    f->count++;
}

/* Returns "location id" of a call or a result; absent for others, and without an id. */
static ms_str call_key(examined *e, const ms_envelope *m)
{
    ms_buf key = {&e->inner.arena, NULL, 0, 0};
    bool paired = m->type == MS_T_ACTION || m->type == MS_T_OBSERVATION ||
                  m->type == MS_T_ERROR;
    if (!paired || m->call_id.len == 0) return ms_str_n(NULL, 0);
    ms_buf_write(&key, m->location.ptr, m->location.len);
    json_piece(&key, " ");
    ms_buf_write(&key, m->call_id.ptr, m->call_id.len);
    return ms_buf_text(&key);
}

static uint64_t count_in(tally *t, ms_str key)
{
    tally_row *row = tally_row_of(t, key);
    if (row == NULL) exit(no_memory());
    return row->count;
}

/* Counts each call and each result. A result without an id belongs to the call before
 * it. */
static int count_calls(examined *e)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    ms_str last = {NULL, 0};
    listing l = {e->inner.store, &q, NULL, NULL, NULL};
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        bool result = m.type == MS_T_OBSERVATION || m.type == MS_T_ERROR;
        ms_str key = call_key(e, &m);
        e->messages++;
        if (result && m.call_id.len == 0) key = last;
        if (key.ptr == NULL) continue;
        if (!result) last = key;
        tally_row *row = tally_row_of(result ? &e->results : &e->calls, key);
        if (row == NULL) exit(no_memory());
        if (row->count++ == 0) row->bytes = m.seq; /* the first place */
    }
    return listing_close(&it);
}

static void note_missing(const tally *these, tally *those, finding *f)
{
    for (size_t i = 0; i < arrlenu(these->rows); i++) {
        const tally_row *row = &these->rows[i];
        bool alone = row->count > 0 && count_in(those, row->text) == 0;
        if (alone) note_message(f, row->bytes);
    }
}

static int read_messages(examined *e)
{
    if (strcmp(e->path, "-") == 0 || is_pipe(e->path)) {
        complain("%s: doctor reads messages a second time; name a file", e->path);
        return FAILED;
    }
    e->one = *e->options;
    e->files[0] = (char *)(uintptr_t)e->path;
    e->one.files = e->files;
    e->one.n_files = 1;
    e->inner.options = &e->one;
    int code = open_store(&e->inner);
    if (code == FINE) code = count_calls(e);
    if (code != FINE) return code;
    note_missing(&e->calls, &e->results, &e->open);
    note_missing(&e->results, &e->calls, &e->lost);
    return FINE;
}


/* ---- The report -------------------------------------------------------------------- */

static void print_finding(output *out, const finding *f, const char *text,
                          const char *place)
{
    if (f->count == 0) return;
    emit_format(out, "%10" PRIu64 "  %s", f->count, text);
    if (f->bytes > 0) emit_format(out, ", %" PRIu64 " bytes", f->bytes);
    emit_format(out, ": %s", place);
    for (uint64_t i = 0; i < f->count && i < FIRST_PLACES; i++) {
        emit_format(out, "%s%" PRIu64, i > 0 ? ", " : " ", f->lines[i]);
    }
    emit_text(out, f->count > FIRST_PLACES ? ", ...\n" : "\n");
}

static uint64_t faults_of(const examined *e)
{
    uint64_t n = e->looked ? doctor_faults(&e->d) : 0;
    n += e->torn.count + e->bad_text.count + e->packed.count;
    if (e->mended.ptr != NULL) return n + e->open.count + e->lost.count;
    return n + e->open.count + e->lost.count + e->inner.rescue.places +
           e->inner.rescue.repaired;
}

/* Prints what the reader of messages skipped or repaired. */
static void print_rescued(output *out, const rescue *r)
{
    finding damaged = {r->places, r->bytes, {0}}, repaired = {r->repaired, 0, {0}};
    memcpy(damaged.lines, r->first, sizeof r->first);
    memcpy(repaired.lines, r->first_repaired, sizeof r->first_repaired);
    print_finding(out, &damaged, "damaged places", "line");
    print_finding(out, &repaired, fault_text(FAULT_BAD_TEXT), "line");
}

static void print_examined(examined *e)
{
    uint64_t n = faults_of(e), shots = e->looked ? e->d.snapshot_bytes : 0;
    complain_of_events(&e->inner);
    emit_visible(e->out, e->path);
    emit_format(e->out, ": %s, ", e->format != NULL ? e->format->name : "messages");
    if (n == 0) emit_text(e->out, "nothing is wrong\n");
    else emit_format(e->out, "%" PRIu64 " fault%s\n", n, n == 1 ? "" : "s");
    for (int i = 0; i < FAULT_COUNT && e->looked; i++) {
        print_finding(e->out, &e->d.found[i], fault_text(i), "line");
    }
    print_finding(e->out, &e->torn, "document that ends too early", "line");
    print_finding(e->out, &e->bad_text, "document with text that is not UTF-8", "line");
    if (e->packed.count > 0) {
        emit_format(e->out, "%10d  %s\n", 1, e->tree  ? "file or more of it is damaged"
                                            : e->cut ? "compressed text that ends early"
                                                     : "ZIP that is damaged");
    }
    print_finding(e->out, &e->open, "calls without a result", "message");
    print_finding(e->out, &e->lost, "results without a call", "message");
    if (e->mended.ptr == NULL) print_rescued(e->out, &e->inner.rescue);
    if (shots > 0) {
        emit_format(e->out, "%10" PRIu64 "  bytes of %" PRIu64 " are snapshots\n", shots,
                    e->d.bytes);
    }
}


/* ---- The repaired copy ------------------------------------------------------------- */

/* Returns whether the file is in the folder of a program that would read a new file
 * there. */
static bool is_in_program(const char *path)
{
    char real[PATH_MAX], piece[256];
    if (realpath(path, real) == NULL) return false;
    for (size_t i = 0; format_at(i) != NULL; i++) {
        const char *places = format_at(i)->places;
        while (*places != '\0') {
            size_t len = strcspn(places, ",");
            snprintf(piece, sizeof piece, "/%.*s/", (int)len, places);
            if (len > 0 && strstr(real, piece) != NULL) return true;
            places += len + (places[len] == ',');
        }
    }
    return false;
}

/* Returns "dir/name.fixed.jsonl" for "dir/name.jsonl", in a fresh string. */
static char *fixed_path(const char *path, const char *ending)
{
    const char *name = path_name(path), *end = path + strlen(path);
    static const char *const ends[] = {".zst", ".jsonl", ".json"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t len = strlen(ends[i]);
        bool longer = (size_t)(end - name) > len;
        if (longer && memcmp(end - len, ends[i], len) == 0) end -= len;
    }
    size_t size = (size_t)(end - path) + 16;
    char *out = malloc(size);
    if (out == NULL) exit(no_memory());
    snprintf(out, size, "%.*s.fixed%s", (int)(end - path), path, ending);
    return out;
}

/* Writes a message. A missing call is added before its first result, a missing result
 * after its call. */
static ms_result write_message(examined *e, ms_writer *w, ms_envelope *m, ms_error *err)
{
    ms_result result = MS_OK;
    ms_str key = call_key(e, m);
    bool call = m->type == MS_T_ACTION;
    bool alone = key.ptr != NULL && count_in(call ? &e->results : &e->calls, key) == 0;
    ms_envelope other = call ? ms_observation(ms_text(no_result_text), m->call_id)
                             : ms_action(MS_STR("unknown"), ms_json(MS_STR("{}")),
                                         m->call_id);
    other.location = m->location;
    other.agent_key = m->agent_key;
    if (alone) { /* once */
        tally_row *row = tally_row_of(call ? &e->results : &e->calls, key);
        if (row == NULL) return MS_E_NO_MEMORY;
        row->count++;
    }
    if (alone && !call) result = ms_writer_put(w, &other, err);
    if (result == MS_OK) result = ms_writer_put(w, m, err);
    if (result == MS_OK && alone && call) result = ms_writer_put(w, &other, err);
    return result;
}

/* Writes all messages in the framework's format, if the input has no known format. */
static int write_messages(examined *e, output *out)
{
    ms_cursor it;
    ms_error err;
    ms_writer w;
    ms_arena arena = {0};
    ms_query q = {0};
    ms_writer_opts opts = {0};
    const ms_msg *msg;
    ms_result result = MS_OK;
    listing l = {e->inner.store, &q, NULL, NULL, NULL};
    opts.with_location = true;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    ms_writer_init(&w, ms_format_find(MS_STR("framework")), &opts, &arena, emit, out);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        result = write_message(e, &w, &m, &err);
    }
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK && out->error == 0) code = complain_of("writing", result, &err);
    ms_arena_deinit(&arena);
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

static int write_fixed(examined *e, output *out)
{
    char *bytes = NULL;
    if (e->mended.ptr != NULL) {
        emit(out, e->mended.ptr, e->mended.len);
        emit_text(out, "\n");
        return FINE;
    }
    if (!e->looked) return write_messages(e, out);
    doctor_write(&e->d, &bytes);
    emit(out, bytes, arrlenu(bytes));
    arrfree(bytes);
    return FINE;
}

static int fix_into(examined *e, const char *path)
{
    new_file file;
    int code = new_file_begin(&file, path, 0600);
    if (code == FINE) code = new_file_end(&file, write_fixed(e, &file.out));
    if (code != FINE) return code;
    emit_format(e->out, "%10s  ", "wrote");
    emit_visible(e->out, path);
    emit_text(e->out, "\n");
    return FINE;
}

static int fix(examined *e)
{
    const char *named = e->options->output;
    bool document = e->mended.ptr != NULL;
    if (!document && !e->looked && e->messages == 0) {
        complain("%s: no message in it can be read; nothing is written", e->path);
        return FINE;
    }
    if (!document && !e->looked && e->format != NULL && e->inner.rescue.places == 0) {
        complain("%s: all of it can be read; nothing is written; hand-over pairs calls",
                 e->path);
        return FINE;
    }
    if (named != NULL && same_file(named, e->path)) {
        complain("%s: the file itself is not written to; name another one", named);
        return USAGE;
    }
    if (named != NULL) return fix_into(e, named);
    if (strcmp(e->path, "-") == 0 || is_in_program(e->path)) {
        complain("%s: a program reads what is put there; name a file with -o FILE",
                 e->path);
        return USAGE;
    }
    char *path = fixed_path(e->path, e->mended.ptr != NULL ? ".json" : ".jsonl");
    bool there = is_there(path);
    if (there) complain("%s: it exists; name another one with -o FILE", path);
    int code = there ? CONFLICT : fix_into(e, path);
    free(path);
    return code;
}


/* ---- The command ------------------------------------------------------------------- */

static void note_fault(finding *f, uint64_t line, size_t bytes)
{
    f->count = 1;
    f->lines[0] = line;
    f->bytes = bytes;
}

/* Looks at a document. A document that ends too early is closed after its last complete
 * value. An object without a known format may lack the member that contains its
 * messages; then the copy has the messages alone. */
static void look_at_document(examined *e, ms_str text)
{
    ms_str value = text;
    ms_error err;
    size_t kept;
    ms_result result = ms_json_check(text, NULL, &value, &err);
    if (result == MS_OK) return;
    if (result != MS_E_UTF8) {
        if (!json_close(text, &e->arena, &value, &kept)) return;
        if (e->format == NULL && is_object(value)) return;
        note_fault(&e->torn, err.line, text.len - kept);
        result = ms_json_check(value, NULL, &value, &err);
    }
    if (result == MS_E_UTF8) {
        note_fault(&e->bad_text, err.line, 0);
        value = json_repaired(e->torn.count > 0 ? value : text, &e->arena);
    }
    e->mended = value;
}

/* Examines formats that the doctor parses line by line, and others through the messages
 * of their reader. */
static int examine(examined *e, ms_str text)
{
    bool zip = is_zip(text);
    e->format = zip || e->tree ? NULL : format_of(text, true);
    if (e->format != NULL && e->format->shape == FILE_LINES) {
        doctor_look(&e->d, e->format, text);
        e->looked = true;
        if (e->d.anatomy != NULL && e->d.anatomy_makes) return FINE;
    } else if (!zip && !e->tree &&
               (e->format == NULL || e->format->shape == FILE_WHOLE)) {
        look_at_document(e, without_mark(text));
    }
    int code = read_messages(e);
    if ((zip || e->tree) && e->inner.lossy) note_fault(&e->packed, 1, 0);
    return code;
}

static int run_one(job *j, output *out, const char *path)
{
    examined *e = calloc(1, sizeof *e);
    file_text file = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    if (e == NULL) return no_memory();
    e->options = j->options;
    e->out = out;
    e->path = path;
    e->tree = is_folder(path);
    int code = e->tree ? FINE : file_load(&file, path);
    e->cut = code == DAMAGED;
    if (e->cut) code = FINE;
    if (code == FINE && is_database(file.text)) {
        complain("%s: a database; msgstore doctor examines transcripts", path);
        code = FAILED;
    }
    if (code == FINE) code = examine(e, file.text);
    if (e->cut) note_fault(&e->packed, 1, 0);
    if (code == FINE) print_examined(e);
    uint64_t n = faults_of(e);
    if (code == FINE && GIVEN(j->options, FIX) && n > 0) code = fix(e);
    int closed = e->inner.options != NULL ? close_job(&e->inner) : FINE;
    if (e->looked) doctor_free(&e->d);
    tally_free(&e->calls);
    tally_free(&e->results);
    ms_arena_deinit(&e->arena);
    if (code == FINE) code = n > 0 || closed != FINE ? DAMAGED : FINE;
    file_free(&file);
    free(e);
    return code;
}

/* Returns whether a text is in a file of lines whose first line is no JSON. */
static bool is_torn(const char *path, ms_str text)
{
    static const char end[] = ".jsonl";
    bool whole;
    size_t n = strlen(path), len = sizeof end - 1;
    ms_str line = next_line(&text, &whole);
    return n > len && memcmp(path + n - len, end, len) == 0 && !is_blank(line) &&
           ms_json_check(line, NULL, NULL, NULL) != MS_OK;
}

/* Returns whether a file of a folder is examined: not if it shows no messages, or
 * cannot be read. *others: files that show none. */
static bool is_examined(const char *path, int *worst, uint64_t *others)
{
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    int code = file_load(&f, path);
    if (!is_read(code)) *worst = code;
    bool shows = is_read(code) &&
                 (is_zip(f.text) || format_of(f.text, true) != NULL ||
                  shows_messages(f.text) || is_torn(path, f.text));
    *others += is_read(code) && !shows;
    file_free(&f);
    return shows;
}

/* Returns whether the files of a folder are one transcript. */
static bool is_tree(unit *units)
{
    for (size_t i = 0; i < arrlenu(units); i++) {
        if (units[i].root != NULL || units[i].events) return true;
    }
    return false;
}

static int run_path(job *j, output *out, const char *path)
{
    int worst = FINE;
    bool folder = is_folder(path);
    uint64_t others = 0, silent = 0;
    unit *units = folder ? units_of(path, &others) : NULL;
    bool single = !folder || is_tree(units);
    complain_of_others(path, others);
    if (j->options->output != NULL && !single) {
        complain("%s: doctor -o FILE is for one transcript", path);
        worst = USAGE;
    } else if (single) {
        worst = run_one(j, out, path);
    }
    for (size_t i = 0; i < arrlenu(units) && !single && out->error == 0; i++) {
        if (worst == USAGE) break;
        if (!is_examined(units[i].path, &worst, &silent)) continue;
        int code = run_one(j, out, units[i].path);
        if (code != FINE && (worst == FINE || worst == DAMAGED)) worst = code;
    }
    if (folder && arrlenu(units) == 0) complain("%s: no files in it", path);
    if (silent > 0) {
        complain("%s: passed over %" PRIu64 " file%s without messages", path, silent,
                 plural(silent));
    }
    units_free(units);
    return worst;
}

static int run_doctor(job *j)
{
    const options *o = j->options;
    output out = {stdout, 0};
    int worst = FINE;
    if (o->output != NULL && (o->n_files > 1 || !GIVEN(o, FIX))) {
        complain("doctor -o FILE needs --fix, and one file");
        return USAGE;
    }
    for (size_t i = 0; i < o->n_files && out.error == 0; i++) {
        int code = run_path(j, &out, o->files[i]);
        if (code != FINE && (worst == FINE || worst == DAMAGED)) worst = code;
    }
    return output_end(&out, worst);
}

static const option_row doctor_rows[] = {
    {OPT_FIX, "write a whole one beside it, NAME.fixed.jsonl"},
    {OPT_OUTPUT, "with --fix: where to; a file that is there is replaced"},
    MAX_ROW,
    {OPT_END, NULL},
};

const command doctor_command = {
    "doctor", "list the faults of a transcript; write a mended copy",
    run_doctor, false, 1, ANY_NUMBER, "a FILE", 0, doctor_rows,
    "examples:\n"
    "  msgstore doctor ~/.claude/projects/*/*.jsonl\n"
    "  msgstore doctor --fix -o whole.jsonl broken.jsonl\n"
    "\n"
    "usage: msgstore doctor [OPTION...] FILE|FOLDER...\n"
    "Counts torn and doubled lines, parents that are not there, calls without a\n"
    "result, results without a call, ids that are used twice or refused, repeated\n"
    "snapshots, each with its first lines. With --fix everything that can be read\n"
    "stays as it is spelled; a call or a result that is missing is made up, and says\n"
    "so. A document that ends too early is closed. Of another one that is no JSON the\n"
    "messages that can be read are written, in the framework's format.\n"
    "A folder of an agent program is never written to unless -o names the file. Exit\n"
    "code 3: something is wrong.\n",
    false,
};
