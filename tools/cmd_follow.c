/* msgstore follow: prints the newest messages of a log, then each new one. */

#define _GNU_SOURCE
#include "commands.h"
#include "follow.h"
#include "postgres.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>


/* ---- msgstore follow --------------------------------------------------------------- */

enum { FOLLOW_NEWEST = 10, FOLLOW_MS = 100 };

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static void number_put(number_row **set, uint64_t seq)
{
    number_row row = {seq};
    hmputs(*set, row);
}

/* Returns the track of a location; NULL: it has none yet. */
static track *follow_track(follower *f, ms_str location)
{
    if (!f->each) return &f->all;
    const tally_row *row = tally_row_of(&f->places, location);
    return row != NULL && row->count > 0 ? &f->tracks[row->count - 1] : NULL;
}

/* Returns the track of a location, which may be new. */
static track *follow_track_new(follower *f, ms_str location)
{
    track new = {.printed = f->job->options->after, .met = f->job->options->after};
    tally_row *row = tally_row_of(&f->places, location);
    if (row == NULL) return NULL;
    if (row->count == 0) {
        arrput(f->tracks, new);
        row->count = arrlenu(f->tracks);
    }
    return &f->tracks[row->count - 1];
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
    ms_result result = write_msg(&f->writer, msg, &err);
    if (result == MS_OK || f->out.error != 0) return FINE;
    return complain_of("writing", result, &err);
}

/* Ends a cursor and flushes the output. told: how many damaged records of this listing
 * an earlier one has reported. */
static int follow_end(follower *f, ms_cursor *it, uint64_t told, int code)
{
    ms_error err;
    ms_result result = MS_OK;
    uint64_t damaged = it->damaged;
    if (f->job->options->to != NULL) result = ms_writer_finish(&f->writer, &err);
    if (result != MS_OK && code == FINE && f->out.error == 0) {
        code = complain_of("writing", result, &err);
    }
    result = ms_cursor_close(it, &err);
    if (result == MS_E_DAMAGED) f->code = DAMAGED;
    bool known = result == MS_E_DAMAGED && damaged == told;
    int closed = FINE;
    if (result != MS_OK && !known)
        closed = complain_of("reading the store", result, &err);
    complain_of_events(f->job);
    if (code == FINE && result != MS_E_DAMAGED) code = closed;
    return output_end(&f->out, code);
}

/* Prints the messages of the query, each with its complete text. */
static int follow_query(follower *f, const ms_query *q)
{
    ms_cursor it;
    const ms_msg *msg;
    listing l = {f->job->store, q, NULL, NULL, NULL};
    bool whole = f->job->options->to != NULL, begins = q->limit > 0;
    ms_arena_reset(&f->job->arena);
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        uint64_t seq = ms_seq(msg);
        bool later = whole && (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
        const track *t = follow_track(f, location_of(msg));
        /* what came since its location was looked at is printed in the next turn */
        bool new = f->each && (t == NULL || seq > t->printed);
        if (new && ms_kind_of(msg) == MS_KIND_MESSAGE) continue;
        if (begins && seq < f->first) f->first = seq;
        if (later) number_put(&f->writing, seq);
        else code = follow_print(f, msg);
    }
    return follow_end(f, &it, 0, code);
}

/* Prints that a range was hidden, unless none of its messages is followed. */
static int follow_hide(follower *f, const ms_query *every, const ms_msg *hide)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_str number, json = ms_content(hide).text;
    const track *t = follow_track(f, location_of(hide));
    uint64_t first = 0, last = 0;
    ms_query range = {.location = location_of(hide), .raw = MS_RAW_MESSAGES};
    listing l = {f->job->store, &range, NULL, NULL, NULL};
    bool any = false, followed = false;
    if (f->job->options->to != NULL) (void)follow_forget(f);
    if (f->job->options->to != NULL) return FINE;
    bool read = ms_json_member(json, MS_STR("first"), &number) &&
                ms_json_u64(number, &first) == MS_OK &&
                ms_json_member(json, MS_STR("last"), &number) &&
                ms_json_u64(number, &last) == MS_OK && first > 0 && last < UINT64_MAX;
    if (!read) return follow_print(f, hide); /* another program wrote it */
    if (last <= f->after || t == NULL || first > t->printed) return FINE;
    range.after_seq = first - 1;
    range.before_seq = last + 1;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (!followed && (msg = ms_next(&it)) != NULL) {
        any = true;
        followed = ms_query_match(every, msg);
    }
    ms_cursor_close(&it, NULL); /* damage is reported where the records are read */
    return any && !followed ? FINE : follow_print(f, hide);
}

/* Returns whether an amendment ends a stream: it is the first one of a message that was
 * stored unfinished; or may be, where that cannot be read. */
static bool is_end(follower *f, const ms_msg *change)
{
    ms_cursor it;
    const ms_msg *msg;
    const ms_query about = {.location = location_of(change), .about_seq = ms_seq(change),
                            .raw = MS_RAW_MESSAGES | MS_RAW_AMENDS};
    uint64_t hash = change_hash(change);
    bool streamed = false, first = false;
    if (ms_query_open(f->job->store, &about, &it, NULL) != MS_OK) return true;
    if ((msg = ms_next(&it)) != NULL && ms_kind_of(msg) == MS_KIND_MESSAGE)
        streamed = (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
    if (streamed && (msg = ms_next(&it)) != NULL) first = change_hash(msg) == hash;
    ms_cursor_close(&it, NULL);
    return first;
}

/* Returns whether a change is of a message that has yet to be shown: in a format one that
 * ends now, in a table any, once in each look. */
static bool follow_shows(follower *f, const ms_msg *change)
{
    uint64_t seq = ms_seq(change);
    const track *t = follow_track(f, location_of(change));
    if (t == NULL || seq > t->printed) return false; /* it is new, and comes whole */
    if (f->job->options->to != NULL)
        return hmdel(f->writing, seq) || (seq < f->first && is_end(f, change));
    if (hmgeti(f->shown, seq) >= 0) return false;
    number_put(&f->shown, seq);
    return true;
}

/* Prints a change of a message: its present form, or the range that was hidden. A message
 * that was amended between the reading of its record and of its text is printed twice. */
static int follow_change(follower *f, const ms_query *every, const ms_msg *change)
{
    ms_error err;
    const ms_msg *msg;
    job *j = f->job;
    uint64_t seq = ms_seq(change);
    if (ms_kind_of(change) == MS_KIND_HIDE) return follow_hide(f, every, change);
    if (ms_kind_of(change) != MS_KIND_AMEND || !follow_shows(f, change)) return FINE;
    ms_arena_reset(&j->arena);
    ms_result result = get_shown(j->store, seq, &j->arena, &msg, &err);
    if (result == MS_E_CONFLICT) /* the file was replaced: told once, and read on */
        result = get_shown(j->store, seq, &j->arena, &msg, &err);
    if (result == MS_E_NOT_FOUND) return FINE; /* hidden since */
    if (result != MS_OK) {
        int code = complain_of("reading a change", result, &err);
        return code == DAMAGED ? FINE : code; /* what comes after it is followed */
    }
    return ms_query_match(every, msg) ? follow_print(f, msg) : FINE;
}

/* Prints new changes of printed messages; with --raw every new record. silent: only
 * remembers where the records end. */
static int follow_changes(follower *f, const ms_query *q, track *t, bool silent)
{
    ms_cursor it;
    const ms_msg *msg;
    bool raw = GIVEN(f->job->options, RAW);
    size_t at = 0;
    uint64_t told = t->damaged, before = 0;
    ms_query every = *q; /* new messages or not; follow_new narrows q */
    ms_query records = {.location = q->location, .after_seq = t->met};
    listing l = {f->job->store, &records, NULL, NULL, NULL};
    every.after_seq = f->after;
    every.before_seq = every.limit = every.raw = 0;
    records.raw = follow_kinds(f);
    hmfree(f->shown);
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        bool message = ms_kind_of(msg) == MS_KIND_MESSAGE;
        if (message) {
            t->met = ms_seq(msg);
            t->n_changes = at = 0;
            before = it.damaged;
        } else if (at++ < t->n_changes) {
            continue;
        } else {
            t->n_changes = at;
        }
        if (silent || (message && !(raw && ms_query_match(&every, msg)))) continue;
        code = raw ? follow_print(f, msg) : follow_change(f, &every, msg);
    }
    t->damaged = it.damaged - before;
    return follow_end(f, &it, told, code);
}

/* Prints the messages that were met (follow_changes has printed them with --raw). */
static int follow_new(follower *f, ms_query *q, track *t)
{
    uint64_t before = t->printed;
    if (t->met <= before) return FINE;
    q->after_seq = before;
    q->before_seq = t->met + 1;
    t->printed = t->met;
    int code = GIVEN(f->job->options, RAW) ? FINE : follow_query(f, q);
    if (code == CONFLICT) t->printed = before; /* none of them was printed */
    return code;
}


/* ---- After the file was replaced --------------------------------------------------- */

/* Opens the new file after a rewrite has replaced the log. Before that it prints what the
 * old one got last: a rewrite puts changes into their messages, and may drop some. The
 * handle of the old file fails once with MS_E_CONFLICT, here in ms_wait, and reads on. */
static int follow_file(follower *f, ms_query *q)
{
    struct stat now;
    job *j = f->job;
    track *t = &f->all;
    uint64_t newest;
    if (stat(j->options->files[0], &now) != 0 || is_followed(f, &now)) return FINE;
    (void)ms_wait(j->store, f->newest, 0, &newest, NULL);
    int code = follow_changes(f, q, t, false);
    if (code == FINE) code = follow_new(f, q, t);
    if (code == CONFLICT || code == DAMAGED) {
        complain("%s: what the file got last that was replaced may not be shown",
                 j->options->files[0]);
        f->code = DAMAGED;
    } else if (code != FINE) {
        return code;
    }
    if (t->met != t->printed) t->n_changes = 0;
    t->met = t->printed;
    t->damaged = f->newest = 0;
    ms_store *old = j->store;
    j->store = NULL;
    code = follow_open(f);
    if (code == FINE) code = follow_compare(f, q->location, old);
    ms_close(old);
    return code;
}

/* After MS_E_CONFLICT: opens the new file, or, if the path has no other, the same one
 * again, once until something was read: a handle that has missed a damaged index reads no
 * further. Returns CONFLICT if that did not help. */
static int follow_again(follower *f, ms_query *q)
{
    job *j = f->job;
    struct stat before = f->file.st;
    int opened = follow_file(f, q);
    if (opened != FINE || !is_followed(f, &before)) return opened;
    if (f->reopened || is_postgres(j->options->files[0])) return CONFLICT;
    f->reopened = true;
    opened = follow_open(f);
    return opened == FINE ? follow_compare(f, q->location, NULL) : opened;
}


/* ---- Looks ------------------------------------------------------------------------- */

/* Looks at a location of a server: at its changes, then its new messages. silent: only
 * remembers where it ends. newer: it is known to have new messages. */
static int follow_place(follower *f, ms_query *q, ms_str location, bool newer,
                        bool silent)
{
    ms_error err;
    bool moved = false;
    track *t = follow_track(f, location);
    ms_result result = wait_postgres(f->job, location, &t->place, 0, &moved, &err);
    if (result != MS_OK) return complain_of("reading the store", result, &err);
    if (!moved && !newer) return FINE;
    q->location = location;
    int code = follow_changes(f, q, t, silent);
    if (code == FINE && !silent) code = follow_new(f, q, t);
    q->location = ms_str_of(NULL);
    return code;
}

/* Looks at each location that has new messages, and if there were changes at all others.
 * A listing names none whose messages are all hidden. */
static int follow_each(follower *f, ms_query *q, bool begin)
{
    ms_error err;
    ms_listing places;
    ms_arena arena = {0};
    const ms_list_query names = {.names_only = true};
    int code = FINE;
    ms_result result = list_names(f->job, &names, &arena, &places, &err);
    if (result != MS_OK) code = complain_of("reading the store", result, &err);
    for (size_t i = result == MS_OK ? places.count : 0; i-- > 0 && code == FINE;) {
        const ms_info *place = &places.items[i];
        track *t = follow_track_new(f, place->location);
        if (t == NULL) code = no_memory();
        if (t == NULL) break;
        bool newer = place->last_seq > t->printed;
        if (begin) t->met = t->printed = place->last_seq;
        if (newer || begin) code = follow_place(f, q, place->location, newer, begin);
    }
    ms_arena_deinit(&arena);
    for (size_t i = 0; i < arrlenu(f->places.rows) && f->changed && code == FINE; i++) {
        const tally_row *row = &f->places.rows[i];
        if (row->count > 0) code = follow_place(f, q, row->text, false, false);
    }
    return code;
}

/* Returns whether a server has changed since it was read, or may have. */
static bool follow_moved(follower *f)
{
    ms_stat now, before = f->totals;
    f->changed = true;
    if (ms_store_stat(f->job->store, &now, NULL) != MS_OK) return true;
    f->totals = now;
    f->changed = now.hidden != before.hidden || now.changes != before.changes;
    return f->changed || now.messages != before.messages;
}

/* Prints new messages, or waits for a moment if there are none. */
static int follow_on(follower *f, ms_query *q, double left)
{
    ms_error err;
    track *t = &f->all;
    bool server = is_postgres(f->job->options->files[0]), moved = false;
    bool at_place = server && !f->each; /* of a server's totals nothing more */
    uint32_t most = at_place ? 5 * FOLLOW_MS : FOLLOW_MS;
    uint32_t pause = left * 1e3 < most ? (uint32_t)(left * 1e3) : most;
    uint64_t newest = f->newest;
    if (!server && is_overwritten(f)) return DAMAGED;
    ms_result result = at_place ? wait_postgres(f->job, q->location, &t->place, pause,
                                                &moved, &err)
                                : ms_wait(f->job->store, newest, pause, &f->newest, &err);
    if (result == MS_E_CONFLICT) {
        f->newest = newest;
        int again = follow_again(f, q);
        if (again != CONFLICT) return again;
    }
    if (result != MS_OK) return complain_of("waiting", result, &err);
    if (server && !(at_place ? moved : follow_moved(f))) return FINE;
    if (f->each) return follow_each(f, q, false);
    int code = f->unsure ? follow_compare(f, q->location, NULL) : FINE;
    if (code == FINE) code = follow_changes(f, q, t, false);
    if (code != FINE) return code;
    f->reopened = false;
    if (t->met <= t->printed) return server ? FINE : follow_file(f, q);
    return follow_new(f, q, t);
}

/* Finds where following begins: after the newest message of the store, or of the
 * location. */
static int follow_newest(follower *f, ms_str location)
{
    ms_error err;
    ms_cursor it;
    const ms_msg *msg;
    const ms_query newest = {.location = location, .limit = 1, .raw = MS_RAW_MESSAGES};
    listing l = {f->job->store, &newest, NULL, NULL, NULL};
    ms_result result = ms_wait(f->job->store, 0, 0, &f->newest, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    f->all.printed = f->newest;
    if (location.len == 0) return FINE;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    f->all.printed = (msg = ms_next(&it)) != NULL ? ms_seq(msg) : 0;
    return listing_close(&it);
}

/* Begins with the newest messages (with --raw, records), or after the named one. With
 * --raw a record that comes amid this may be printed twice. */
static int follow_begin(follower *f, ms_query *q)
{
    track *t = &f->all;
    const options *o = f->job->options;
    bool raw = GIVEN(o, RAW);
    int code = FINE;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION)};
    ms_writer_init(&f->writer, o->to, &opts, &f->arena, emit, &f->out);
    f->table = new_table(NULL);
    f->table.located = o->location == NULL;
    f->each = is_postgres(o->files[0]) && o->location == NULL;
    f->after = t->printed = t->met = o->after;
    if (GIVEN(o, AFTER)) return FINE;
    (void)follow_moved(f);
    f->changed = false;
    code = follow_newest(f, q->location);
    if (code != FINE) return code;
    t->met = t->printed;
    listing l = {f->job->store, q, NULL, &f->job->arena, NULL};
    q->limit = GIVEN(o, LIMIT) ? o->limit : FOLLOW_NEWEST;
    f->first = q->limit > 0 ? t->printed + 1 : 0;
    if (raw) q->raw = MS_RAW_ALL;
    if (raw) q->arena = NULL;
    else if (!f->each) q->before_seq = t->printed + 1;
    if (raw && !GIVEN(o, JSON)) code = raw_measure(&l, &f->table);
    if (!raw && o->to == NULL) code = table_measure(&l, &f->table);
    f->table.located = o->location == NULL;
    if (code == FINE)
        code = f->each ? follow_each(f, q, true) : follow_changes(f, q, t, true);
    bool empty = !f->each && t->printed == 0 && t->met == 0 && t->n_changes == 0;
    return code == FINE && !empty ? follow_query(f, q) : code;
}

#ifdef SIGBUS
/* A page of the log after the end of its file: another program has cut it. */
static void on_bus(int signal_number)
{
    static const char text[] = "msgstore: the log was overwritten or cut while it was "
                               "read; to put another file in its place use mv\n";
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    _exit(DAMAGED);
}
#endif

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
#ifdef SIGBUS
    signal(SIGBUS, on_bus);
#endif
    f.job = j;
    f.out.file = stdout;
    int code = check_raw("follow", o);
    if (code == FINE) code = follow_open(&f);
    if (code == FINE) code = follow_compare(&f, ms_str_of(o->location), NULL);
    if (code != FINE) return code;
    ms_query q = query_of(o, &j->arena);
    q.location = ms_str_of(o->location);
    code = follow_begin(&f, &q);
    q.limit = 0;
    while (code == FINE && !stopped) {
        double left = end - clock_seconds();
        if (left <= 0) break;
        code = follow_on(&f, &q, left);
        if (code == CONFLICT) code = follow_again(&f, &q);
    }
    ms_arena_deinit(&f.arena);
    tally_free(&f.places);
    arrfree(f.tracks);
    hmfree(f.writing);
    hmfree(f.shown);
    return code != FINE ? code : f.code;
}

static const option_row follow_rows[] = {
    {OPT_LIMIT, "begin with the newest N (10); 0: with all"},
    {OPT_AFTER, "begin after message number N instead"},
    {OPT_SECONDS, "stop after S seconds"},
    {OPT_RAW, "every record that comes, as view --raw shows it: parts of messages "
              "that are being written, too"},
    {OPT_JSON, "an object a line, members by their names in msgstore.h"},
    {OPT_CONVERSATION, "messages of user and assistant"},
    {OPT_AGENT, "what agent A did"},
    VIEW_ROWS,
    {OPT_LOCATION, "only this location"},
    WHEN_ROWS,
    PRINT_ROWS,
    {OPT_END, NULL},
};

const command follow_command = {
    "follow", "the newest messages of a log, then new ones as they come",
    run_follow, false, 1, 1, "a STORE", 0, follow_rows,
    "examples:\n"
    "  msgstore follow trace.log --agent worker\n"
    "  msgstore follow trace.log --raw\n"
    "  msgstore follow trace.log --after 120 --format framework --seconds 60\n"
    "\n"
    "usage: msgstore follow [OPTION...] [STORE]\n"
    "Shows the newest messages of a log, then those that come, until interrupted. A\n"
    "message that is amended meanwhile is shown again, with a * after its type; one\n"
    "that is being written when it begins, with a ~, and when it ends. In a message\n"
    "format each is written once, when it is whole. Another log or an older file that\n"
    "takes the place of the log is told, and shown from where it differs; put it there\n"
    "with mv: when the bytes of the log are overwritten it ends, with exit code 3.\n"
    "Without a STORE it is the usual log of sync.\n",
    false,
};
