/* The commands that change what a log shows: amend, hide, rewind, redact, fork, note,
 * location. Each reads its input before it opens the log. Then it makes one change,
 * syncs, and reports the change. */

#define _GNU_SOURCE
#include "commands.h"
#include "leaks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong_argument(const char *name, const char *expected, const char *text)
{
    complain("%s expects %s, not %s", name, expected, text);
    fprintf(stderr, "msgstore %s -h has more\n", name);
    return USAGE;
}

/* Parses the number of a message. zero: 0 is allowed and means the beginning. */
static int take_number(const char *name, const char *text, bool zero, uint64_t *seq)
{
    if (parse_number(text, seq) && (zero || *seq > 0)) return FINE;
    return wrong_argument(name, "the number of a message", text);
}

/* Reads an argument, or standard input ("-" or NULL), without the newline at its end. */
static int take_text(job *j, const char *text, ms_str *out)
{
    source s;
    *out = ms_str_of(text);
    if (text != NULL && strcmp(text, "-") != 0) return FINE;
    int code = source_open(&s, "-", NULL, 0);
    if (code != FINE) return code;
    code = read_whole(&s);
    size_t len = s.len - s.start;
    if (len > 0 && s.buf[s.start + len - 1] == '\n') len--;
    if (len > 0 && s.buf[s.start + len - 1] == '\r') len--;
    ms_str all = ms_str_n(s.buf != NULL ? s.buf + s.start : "", len);
    if (code == FINE && !copy_text(&j->arena, all, out)) code = no_memory();
    source_close(&s);
    return code;
}

/* Reads an argument as a value. With --json the argument must be JSON. */
static int take_content(job *j, const char *text, bool json, ms_value *out)
{
    ms_error err;
    ms_str got;
    int code = take_text(j, text, &got);
    if (code != FINE) return code;
    if (json && ms_json_check(got, NULL, &got, &err) != MS_OK) {
        complain("no JSON: %s", err.message);
        return FAILED;
    }
    *out = json ? ms_json(got) : ms_text_n(got);
    return FINE;
}

/* Opens the log of the first argument, which must exist. */
static int open_to_change(job *j)
{
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_WRITE;
    set_writing(j->options, &desc);
    j->appends = true;
    return open_log(j, j->options->files[0], &desc);
}

/* Ends a change: reports an error, or syncs the store and prints the line of success. */
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
static int finish_change(job *j, ms_result result, ms_error *err, const char *done,
                         const char *format, ...)
{
    char text[2 * CELL_BYTES], clean[2 * CELL_BYTES];
    va_list list;
    output out = {stdout, 0};
    if (result != MS_OK) return complain_of(NULL, result, err);
    result = ms_sync(j->store, NULL, err);
    if (result != MS_OK) return complain_of("syncing", result, err);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cell c = cell_over(clean, sizeof clean, sizeof clean);
    cell_put(&c, ms_str_of(text));
    emit_format(&out, "%-10s ", done);
    emit(&out, c.buf, c.len);
    emit_text(&out, "\n");
    return output_end(&out, FINE);
}

/* Counts the visible messages of the location that have larger numbers. */
static int count_after(job *j, ms_str location, uint64_t seq, uint64_t *count)
{
    ms_cursor it;
    ms_query q = {0};
    listing l = {j->store, &q, NULL, NULL, NULL};
    q.location = location;
    q.after_seq = seq;
    *count = 0;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (ms_next(&it) != NULL) ++*count;
    return listing_close(&it);
}

static int look_at(job *j, uint64_t seq, const ms_msg **msg)
{
    ms_error err;
    ms_result result = get_shown(j->store, seq, &j->arena, msg, &err);
    return result == MS_OK ? FINE : complain_of(NULL, result, &err);
}


/* ---- msgstore amend ---------------------------------------------------------------- */

/* Sets the body: the arguments of an ACTION, the task of a DELEGATION, else the
 * content. */
static int set_body(ms_envelope *m, ms_value value)
{
    ms_error err;
    if (m->type == MS_T_DELEGATION) {
        if (!value.json) m->task = value.text;
        if (!value.json) return FINE;
        complain("the task of a delegation is a text: not with --json");
        return FAILED;
    }
    if (m->type != MS_T_ACTION) {
        m->content = value;
        return FINE;
    }
    bool json = ms_json_check(value.text, NULL, &value.text, &err) == MS_OK;
    if (!json || !is_object(value.text)) {
        complain("the arguments of an action are a JSON object%s%s", json ? "" : ": ",
                 json ? "" : err.message);
        return FAILED;
    }
    m->args = ms_json(value.text);
    return FINE;
}

/* Reads a complete message in the format of --from. */
static int read_message(job *j, ms_str json, ms_envelope *m)
{
    ms_error err;
    ms_envelopes list;
    const options *o = j->options;
    ms_read_opts opts = {GIVEN(o, LENIENT), false};
    ms_result result = ms_read(o->from, json, &opts, &j->arena, &list, &err);
    if (result != MS_OK) return complain_of("this message", result, &err);
    if (list.count != 1) {
        complain("one message was expected, this becomes %zu", list.count);
        return FAILED;
    }
    *m = list.items[0];
    return FINE;
}

static int run_amend(job *j)
{
    ms_error err;
    ms_envelope m;
    ms_value value;
    const ms_msg *old;
    uint64_t seq;
    const options *o = j->options;
    bool json = GIVEN(o, JSON) && o->from == NULL;
    int code = take_number("amend", o->files[1], false, &seq);
    if (code == FINE) code = refuse_transcripts("amend", o);
    if (code == FINE && GIVEN(o, JSON) && o->from != NULL) {
        return wrong_argument("amend", "--json or --from", "both");
    }
    if (code == FINE) {
        code = take_content(j, o->n_files > 2 ? o->files[2] : NULL, json, &value);
    }
    if (code == FINE && o->from != NULL) code = read_message(j, value.text, &m);
    if (code == FINE) code = open_to_change(j);
    if (code == FINE) code = look_at(j, seq, &old);
    if (code != FINE) return code;
    if (o->from == NULL) m = ms_envelope_of(old);
    if (o->from == NULL) code = set_body(&m, value);
    if (code != FINE) return code;
    ms_result result = ms_amend(j->store, seq, &m, &err);
    return finish_change(j, result, &err, "amended", "message %" PRIu64, seq);
}


/* ---- msgstore hide, msgstore rewind ------------------------------------------------ */

/* Parses "7" or "7-9". */
static int take_range(const char *text, uint64_t *first, uint64_t *last)
{
    char copy[64];
    const char *dash = strchr(text, '-');
    size_t len = dash != NULL ? (size_t)(dash - text) : strlen(text);
    if (len < sizeof copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (parse_number(copy, first) && *first > 0) {
            *last = *first;
            if (dash == NULL || (parse_number(dash + 1, last) && *last >= *first)) {
                return FINE;
            }
        }
    }
    return wrong_argument("hide", "numbers of messages, or ranges like 7-9", text);
}

/* Checks that all messages exist before any is hidden. A range may have gaps. */
static int check_hide(job *j, ms_str *location)
{
    const options *o = j->options;
    const ms_msg *msg;
    uint64_t first, last;
    int code = FINE;
    bool ranges = false;
    for (size_t i = 1; i < o->n_files && code == FINE; i++) {
        code = take_range(o->files[i], &first, &last);
        ranges = ranges || first != last;
    }
    if (code == FINE) code = open_to_change(j);
    for (size_t i = 1; i < o->n_files && code == FINE; i++) {
        code = take_range(o->files[i], &first, &last);
        if (code == FINE && first == last) code = look_at(j, first, &msg);
    }
    if (code == FINE && (ranges || o->location != NULL)) {
        code = choose_location(j, o->location, true, location);
    }
    return code;
}

static int run_hide(job *j)
{
    ms_error err;
    ms_str location = {NULL, 0};
    ms_result result = MS_OK;
    uint64_t first, last, hidden, all = 0;
    const options *o = j->options;
    int code = check_hide(j, &location);
    if (code != FINE) return code;
    for (size_t i = 1; i < o->n_files && result == MS_OK; i++) {
        take_range(o->files[i], &first, &last);
        hidden = 1;
        result = location.ptr == NULL
                     ? ms_hide(j->store, first, &err)
                     : ms_hide_range(j->store, location, first, last, &hidden, &err);
        if (result == MS_OK) all += hidden;
    }
    if (result != MS_OK && all > 0) {
        complain("hidden: %" PRIu64 " message%s", all, plural(all));
    }
    return finish_change(j, result, &err, "hidden", "%" PRIu64 " message%s", all,
                         plural(all));
}

static int run_rewind(job *j)
{
    ms_error err;
    ms_str location;
    uint64_t seq, hidden = 0;
    const options *o = j->options;
    bool dry = GIVEN(o, DRY_RUN);
    int code = take_number("rewind", o->files[1], true, &seq);
    if (code == FINE) code = dry ? open_to_read(j) : open_to_change(j);
    if (code == FINE) code = choose_location(j, o->location, true, &location);
    if (code == FINE && dry) code = count_after(j, location, seq, &hidden);
    if (code != FINE) return code;
    if (dry) {
        output out = {stdout, 0};
        emit_format(&out, "would hide %" PRIu64 " message%s\n", hidden, plural(hidden));
        return output_end(&out, FINE);
    }
    ms_result result = ms_rewind(j->store, location, seq, &hidden, &err);
    return finish_change(j, result, &err, "hidden", "%" PRIu64 " message%s", hidden,
                         plural(hidden));
}


/* ---- msgstore fork ----------------------------------------------------------------- */

static int run_fork(job *j)
{
    ms_error err;
    uint64_t seq, count = 0;
    const options *o = j->options;
    ms_str from = ms_str_of(o->files[1]), to = ms_str_of(o->files[3]);
    int code = take_number("fork", o->files[2], true, &seq);
    if (code == FINE) code = open_to_change(j);
    if (code != FINE) return code;
    ms_result result = ms_fork(j->store, from, seq, to, &j->arena, &err);
    if (result == MS_OK) code = count_after(j, to, 0, &count);
    if (code != FINE) return code;
    return finish_change(j, result, &err, "copied", "%" PRIu64 " message%s to %.*s",
                         count, plural(count), to.len < 1024 ? (int)to.len : 1024,
                         to.ptr);
}


/* ---- msgstore note, msgstore location ---------------------------------------------- */

/* Prints all notes of a message, one line each. */
static int print_notes(job *j, uint64_t seq)
{
    const ms_msg *msg;
    ms_query q = {0};
    listing l = {j->store, &q, NULL, &j->arena, NULL};
    int code = look_at(j, seq, &msg);
    if (code != FINE) return code;
    if (!copy_text(&j->arena, location_of(msg), &q.location)) return no_memory();
    q.raw = MS_RAW_NOTES;
    q.about_seq = seq;
    return print_raw(j->options, &l);
}

static int run_note(job *j)
{
    ms_error err;
    uint64_t seq;
    const options *o = j->options;
    ms_value value = ms_json(MS_STR("true"));
    int code = take_number("note", o->files[1], false, &seq);
    if (code == FINE && o->n_files == 2) {
        code = open_store(j);
        return code == FINE ? print_notes(j, seq) : code;
    }
    if (code == FINE && o->n_files > 3) {
        code = take_content(j, o->files[3], GIVEN(o, JSON), &value);
    }
    if (code == FINE) code = open_to_change(j);
    if (code != FINE) return code;
    ms_result result = ms_note(j->store, seq, ms_str_of(o->files[2]), value, &err);
    return finish_change(j, result, &err, "noted", "%s of message %" PRIu64, o->files[2],
                         seq);
}

/* Prints the facts of a location. A location without facts and messages is probably a
 * misspelled name, so it is an error. */
static int print_facts(job *j, ms_str location)
{
    ms_error err;
    ms_str facts;
    ms_listing list;
    output out = {stdout, 0};
    const ms_str any = {NULL, 0};
    int code = open_store(j);
    if (code != FINE) return code;
    ms_result result = ms_location_get(j->store, location, &j->arena, &facts, &err);
    if (result != MS_OK) return complain_of(NULL, result, &err);
    if (facts.len <= 2) code = look_up(j, false, any, location, &list);
    if (code != FINE) return code;
    emit_message_text(&out, facts);
    return output_end(&out, FINE);
}

static int run_location(job *j)
{
    ms_error err;
    ms_value facts;
    const options *o = j->options;
    ms_str location = ms_str_of(o->files[1]);
    if (o->n_files == 2) return print_facts(j, location);
    int code = take_content(j, o->files[2], true, &facts);
    if (code == FINE) code = open_to_change(j);
    if (code != FINE) return code;
    ms_result result = ms_location_set(j->store, location, facts.text, &err);
    return finish_change(j, result, &err, "set", "facts of %s", o->files[1]);
}


/* ---- msgstore redact --------------------------------------------------------------- */

/* The messages to erase, chosen by number or by the view options. */
typedef struct selection {
    job *job;
    ms_query query;
    size_t skip, left;        /* of the matching ones; hidden ones count */
    table table;
    output out;
    uint64_t *seqs;
    size_t n, cap;
} selection;

typedef int (*visit_fn)(selection *s, const ms_msg *msg);

/* Visits the record of one message, hidden or not. An absent message is not an error. */
static int visit_number(selection *s, uint64_t seq, visit_fn visit)
{
    ms_cursor it;
    ms_error err;
    ms_query q = {0};
    const ms_msg *msg;
    const job *j = s->job;
    listing l = {j->store, &q, NULL, NULL, NULL};
    bool found = false, hidden;
    hidden = ms_get_by_seq(j->store, seq, &s->job->arena, &msg, &err) == MS_E_NOT_FOUND;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && !found && (msg = ms_next(&it)) != NULL) {
        found = ms_seq(msg) == seq;
        if (!found || (hidden && !GIVEN(j->options, RAW))) continue;
        code = visit(s, msg);
    }
    int closed = listing_close(&it);
    if (code == FINE) code = closed;
    if (code != FINE || (found && (!hidden || GIVEN(j->options, RAW)))) return code;
    complain(found ? "message %" PRIu64 " is hidden; --raw erases hidden ones, too"
                   : "no message has the number %" PRIu64, seq);
    return found ? CONFLICT : NOT_FOUND;
}

/* Visits all messages that the options choose. With hidden ones, views and limit apply
 * to messages as they were appended. */
static int visit_view(selection *s, visit_fn visit)
{
    ms_cursor it;
    const ms_msg *msg;
    bool raw = GIVEN(s->job->options, RAW);
    size_t skip = s->skip, left = s->left;
    ms_query all = {0};
    listing l = {s->job->store, raw ? &all : &s->query, NULL, NULL, NULL};
    all.location = s->query.location;
    all.raw = MS_RAW_MESSAGES;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && left > 0 && (msg = ms_next(&it)) != NULL) {
        if (raw && !ms_query_match(&s->query, msg)) continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        left--;
        code = visit(s, msg);
    }
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

static int visit_all(selection *s, visit_fn visit)
{
    uint64_t seq;
    const options *o = s->job->options;
    int code = FINE;
    if (o->n_files < 2) return visit_view(s, visit);
    for (size_t i = 1; i < o->n_files && code == FINE; i++) {
        code = take_number("redact", o->files[i], false, &seq);
        if (code == FINE) code = visit_number(s, seq, visit);
    }
    return code;
}

static int collect(selection *s, const ms_msg *msg)
{
    if (s->n == s->cap) {
        size_t cap = s->cap > 0 ? 2 * s->cap : 64;
        uint64_t *seqs = realloc(s->seqs, cap * sizeof *seqs);
        if (seqs == NULL) return no_memory();
        s->seqs = seqs;
        s->cap = cap;
    }
    s->seqs[s->n++] = ms_seq(msg);
    table_fit(&s->table, msg);
    return FINE;
}

static int print_selected(selection *s, const ms_msg *msg)
{
    print_row(&s->table, msg, &s->out);
    return FINE;
}

/* Keeps the newest n, or the oldest n; hidden ones count. */
static void limit_selection(selection *s)
{
    size_t limit = s->job->options->limit;
    if (limit == 0 || s->n <= limit) return;
    bool oldest = GIVEN(s->job->options, OLDEST);
    s->skip = oldest ? 0 : s->n - limit;
    s->left = limit;
    if (!oldest) memmove(s->seqs, s->seqs + s->skip, limit * sizeof *s->seqs);
    s->n = limit;
}

static int erase(selection *s)
{
    ms_error err;
    size_t done = 0;
    ms_result result = MS_OK;
    while (done < s->n && (result == MS_OK || result == MS_E_DAMAGED)) {
        ms_result one = ms_redact(s->job->store, s->seqs[done], &err);
        if (one != MS_OK) result = one;
        if (one == MS_OK || one == MS_E_DAMAGED) done++; /* reported at the end */
    }
    emit_format(&s->out, "erased     %zu message%s\n", done, plural(done));
    int code = output_end(&s->out, FINE);
    return result == MS_OK ? code : complain_of(NULL, result, &err);
}

static int select_and_erase(selection *s)
{
    const options *o = s->job->options;
    s->left = SIZE_MAX;
    s->table = new_table(joined_store(s->job));
    s->table.located = o->location == NULL;
    int code = visit_all(s, collect);
    if (code != FINE) return code;
    if (o->n_files < 2) limit_selection(s);
    if (GIVEN(o, APPLY)) return erase(s);
    table_fill(&s->table);
    code = visit_all(s, print_selected);
    if (code != FINE) return code;
    emit_format(&s->out, "would erase %zu message%s; --apply does it\n", s->n,
                plural(s->n));
    return output_end(&s->out, FINE);
}

#define REDACT_CHOICE \
    (BIT(CONVERSATION) | BIT(TEAM) | BIT(GLOBAL) | BIT(TIMELINE) | BIT(TURN) | \
     BIT(SINCE) | BIT(UNTIL) | BIT(AGENT) | BIT(LIMIT))

/* Checks that the messages are chosen by numbers or by options, not by both. Without
 * either, the command would erase everything. */
static int check_redact(const options *o)
{
    const uint64_t choosing = REDACT_CHOICE | BIT(LOCATION);
    const char *what = NULL;
    uint64_t seq;
    bool chosen = (o->given & choosing) != 0;
    if (o->n_files < 2 && !chosen) {
        what = "needs numbers of messages, or options that choose (--timeline: all)";
    } else if (o->n_files > 1 && chosen) {
        what = "takes numbers of messages or options that choose, not both";
    }
    for (size_t i = 1; i < o->n_files && what == NULL; i++) {
        int code = take_number("redact", o->files[i], false, &seq);
        if (code != FINE) return code;
    }
    if (what == NULL) return FINE;
    complain("redact %s", what);
    fprintf(stderr, "msgstore redact -h has more\n");
    return USAGE;
}

/* Reports messages that --since or --until cannot choose: their content stays. */
static void complain_of_kept(const selection *s)
{
    ms_query q = s->query;
    if (GIVEN(s->job->options, RAW)) q.raw = MS_RAW_MESSAGES;
    if (s->job->options->n_files < 2) complain_of_undated(s->job, &q);
}

/* Checks the options of --secrets, which searches complete locations. */
static int check_secrets(const options *o)
{
    if (o->n_files < 2 && (o->given & REDACT_CHOICE) == 0) return FINE;
    complain("redact --secrets takes no numbers, and of options that choose --location");
    fprintf(stderr, "msgstore redact -h has more\n");
    return USAGE;
}

static int run_redact(job *j)
{
    selection s;
    const options *o = j->options;
    int code = GIVEN(o, SECRETS) ? check_secrets(o) : check_redact(o);
    const char *path = o->files[0];
    if (code == FINE && GIVEN(o, SECRETS) && is_there(path) && !is_log(path)) {
        complain("%s is no log, and redact changes logs alone: msgstore sync new.log %s, "
                 "then msgstore redact new.log --secrets lists what it has", path,
                 shell_word(&j->arena, path));
        return USAGE;
    }
    if (code == FINE) code = GIVEN(o, APPLY) ? open_to_change(j) : open_to_read(j);
    if (code != FINE) return code;
    if (GIVEN(o, SECRETS)) return redact_secrets(j);
    memset(&s, 0, sizeof s);
    s.job = j;
    s.out.file = stdout;
    s.query = query_of(o, &j->arena);
    if (GIVEN(o, RAW)) s.query.limit = 0;
    if (o->n_files < 2) code = choose_location(j, o->location, false, &s.query.location);
    if (s.query.views == 0) s.query.views = MS_VIEW_TIMELINE;
    if (code == FINE) complain_of_kept(&s);
    if (code == FINE) code = select_and_erase(&s);
    free(s.seqs);
    return code;
}

static const option_row amend_rows[] = {
    {OPT_JSON, "TEXT is JSON"},
    {OPT_FROM, "TEXT is a whole message in this format, of the same type"},
    {OPT_LENIENT, "keep odd members of it instead of refusing them"},
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command amend_command = {
    "amend", "replace the content of a message of a log",
    run_amend, false, 2, 3, "a STORE and a NUMBER", 0, amend_rows,
    "examples:\n"
    "  msgstore amend trace.log 17 'List the tables of 2026'\n"
    "  msgstore amend trace.log 18 '{\"limit\":10}'\n"
    "  msgstore amend trace.log 19 --json <result.json\n"
    "\n"
    "usage: msgstore amend [OPTION...] STORE NUMBER [TEXT|-]\n"
    "Replaces the content of a message; its number and its place in every view stay.\n"
    "TEXT is the content, of an action its arguments, of a delegation its task; without\n"
    "it, it is read from standard input.\n",
    false,
};

static const option_row hide_rows[] = {
    {OPT_LOCATION, "whose messages a range hides, when there are several locations"},
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command hide_command = {
    "hide", "hide messages from every view",
    run_hide, false, 2, ANY_NUMBER, "a STORE and a NUMBER", 0, hide_rows,
    "examples:\n"
    "  msgstore hide trace.log 17\n"
    "  msgstore hide trace.log 17 20-29 --location job_42\n"
    "\n"
    "usage: msgstore hide [OPTION...] STORE NUMBER|FIRST-LAST...\n"
    "Takes messages out of every view. They stay in the file, where view --raw shows\n"
    "them, until msgstore compact.\n",
    false,
};

static const option_row rewind_rows[] = {
    {OPT_LOCATION, "which location, when there are several"},
    {OPT_DRY_RUN, "only print how many it would hide"},
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command rewind_command = {
    "rewind", "hide all messages after one of a location",
    run_rewind, false, 2, 2, "a STORE and a NUMBER", 0, rewind_rows,
    "examples:\n"
    "  msgstore rewind trace.log --location job_42 17\n"
    "  msgstore rewind trace.log --location job_42 0\n"
    "\n"
    "usage: msgstore rewind [OPTION...] STORE NUMBER\n"
    "Goes back to a message of a location: hides everything after it. 0 hides all.\n",
    false,
};

static const option_row fork_rows[] = {
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command fork_command = {
    "fork", "branch off: copy a location up to a message",
    run_fork, false, 4, 4, "a STORE, FROM, a NUMBER and TO", 0, fork_rows,
    "examples:\n"
    "  msgstore fork trace.log job_42 17 job_42.second\n"
    "\n"
    "usage: msgstore fork [OPTION...] STORE FROM NUMBER TO\n"
    "Gives the new location TO what FROM shows up to a message, with new numbers. The\n"
    "facts of TO name where it comes from. What is done to one is not seen in the\n"
    "other.\n",
    false,
};

static const option_row note_rows[] = {
    {OPT_JSON, "VALUE is JSON; without KIND: an object a line"},
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command note_command = {
    "note", "attach a value to a message: a rating, a cost",
    run_note, false, 2, 4, "a STORE and a NUMBER", 0, note_rows,
    "examples:\n"
    "  msgstore note trace.log 17 rating 5 --json\n"
    "  msgstore note trace.log 17 usage '{\"input_tokens\":900}' --json\n"
    "  msgstore note trace.log 17\n"
    "\n"
    "usage: msgstore note [OPTION...] STORE NUMBER [KIND [VALUE|-]]\n"
    "Attaches a value to a message. Without VALUE it is true, - reads it from standard\n"
    "input; without KIND the notes of the message are shown. msgstore info --usage\n"
    "adds up those of the kind usage: their members input_tokens, output_tokens,\n"
    "cached_tokens, reasoning_tokens and seconds.\n",
    false,
};

static const option_row location_rows[] = {
    WRITE_ROWS,
    {OPT_END, NULL},
};

const command location_command = {
    "location", "show or set facts of a location: a title, a model",
    run_location, false, 2, 3, "a STORE and a LOCATION", 0, location_rows,
    "examples:\n"
    "  msgstore location trace.log job_42\n"
    "  msgstore location trace.log job_42 '{\"title\":\"Tables\",\"model\":null}'\n"
    "\n"
    "usage: msgstore location [OPTION...] STORE LOCATION [FACTS|-]\n"
    "Prints what is known about a location, a JSON object; or sets the members of\n"
    "FACTS, of which null removes one. - reads them from standard input.\n",
    false,
};

static const option_row redact_rows[] = {
    {OPT_APPLY, "do it"},
    {OPT_SECRETS, "messages that have secrets"},
    {OPT_MASK_SECRETS, "with --secrets --apply: only the secrets, not the messages; the "
                       "earlier text stays in the file until compact"},
    {OPT_PERSONAL, "with --secrets: e-mail addresses and names of home folders, too"},
    {OPT_RAW, "hidden messages, too"},
    {OPT_CONVERSATION, "messages of user and assistant"},
    {OPT_AGENT, "what agent A did"},
    VIEW_ROWS,
    {OPT_LOCATION, "only this location"},
    WHEN_ROWS,
    {OPT_LIMIT, "the newest N of these; with --oldest the oldest N"},
    WRITE_ROWS,
    {OPT_OLDEST, NULL},
    {OPT_END, NULL},
};

const command redact_command = {
    "redact", "erase the content of messages",
    run_redact, false, 1, ANY_NUMBER, "a STORE", 0, redact_rows,
    "examples:\n"
    "  msgstore redact trace.log 17 18\n"
    "  msgstore redact trace.log --secrets\n"
    "  msgstore redact trace.log --agent worker --until 2026-03-02 --raw --apply\n"
    "\n"
    "usage: msgstore redact [OPTION...] STORE NUMBER...\n"
    "       msgstore redact [OPTION...] STORE, with options that choose\n"
    "       msgstore redact --secrets [--location L] [--apply] STORE\n"
    "Erases the content of messages in the file: content, arguments, notes (except\n"
    "usage), and earlier versions. Number, time, type, agent and ids stay. Without\n"
    "--apply it only lists the messages. It cannot be undone. Copies, backups and\n"
    "other logs keep the content, and so do bytes that a crash left of an append,\n"
    "until msgstore compact. No other process should read the log meanwhile.\n"
    "With --secrets it searches keys, tokens and passwords in all messages, hidden\n"
    "ones too, in streams, notes, facts, ids and names, in what a crash left of an\n"
    "append, and in STORE.torn and STORE.compacting. It lists their places and first\n"
    "characters. --apply erases what it can in place. It hides messages with secrets\n"
    "in ids or names; those, replaced facts and earlier texts stay in the file until\n"
    "msgstore compact STORE STORE --replace. Exit code 1: some are left, and each line\n"
    "\"left\" has the command that removes them. No list of forms is exact:\n"
    "examples as AKIA...EXAMPLE and passwords without a digit are passed over.\n",
    false,
};
