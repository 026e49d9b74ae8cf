/* msgstore follow: prints the newest messages of a log, then each new one. */

#define _GNU_SOURCE
#include "commands.h"
#include "postgres.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>


/* ---- msgstore follow --------------------------------------------------------------- */

enum { FOLLOW_NEWEST = 10, FOLLOW_MS = 100 };

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

typedef struct hashes {
    uint64_t *items;
    size_t cap;
} hashes;

typedef struct follower {
    job *job;
    output out;
    table table;
    ms_writer writer;
    ms_arena arena;           /* of the writer */
    struct stat file;         /* of the open file, */
    unsigned char lineage[16]; /* and of its log; zeros: not known */
    ms_stat totals;           /* of a server, before it was read the last time */
    uint64_t newest;          /* number in the store */
    uint64_t place;           /* of the last record of the location, on a server */
    uint64_t last;            /* all messages up to here were printed */
    bool each;                /* numbers increase within a location only, */
    tally places;             /* so `count` is the last number printed of each */
    uint64_t after;           /* messages up to here are not followed */
    uint64_t mark;            /* the newest message whose record was met, */
    size_t marked;            /* and how many changes after it were handled, */
    hashes handled;           /* which ones, */
    hashes copied;            /* and those of the file before, up to n: a rewrite may */
    size_t at_copied, n_copied; /* have copied some of them */
    bool unsure;              /* the lineage of the open file is not known */
    uint64_t *writing;        /* messages that were unfinished when read */
    size_t n_writing, cap_writing;
    bool reopened;            /* the log was, and nothing was read since */
    int code;                 /* DAMAGED when something could not be read */
} follower;

/* Defers an unfinished message. A message format prints complete messages only; until
 * then the follower keeps the number. */
static int follow_later(follower *f, uint64_t seq)
{
    if (f->n_writing == f->cap_writing) {
        size_t cap = f->cap_writing > 0 ? 2 * f->cap_writing : 16;
        uint64_t *writing = realloc(f->writing, cap * sizeof *writing);
        if (writing == NULL) return no_memory();
        f->writing = writing;
        f->cap_writing = cap;
    }
    f->writing[f->n_writing++] = seq;
    return FINE;
}

/* Removes the message from the list; false if it is not there. */
static bool follow_ended(follower *f, uint64_t seq)
{
    for (size_t i = 0; i < f->n_writing; i++) {
        if (f->writing[i] != seq) continue;
        f->writing[i] = f->writing[--f->n_writing];
        return true;
    }
    return false;
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

/* Ends a cursor and flushes the output. */
static int follow_end(follower *f, ms_cursor *it, int code)
{
    ms_error err;
    ms_result result = MS_OK;
    if (f->job->options->to != NULL) result = ms_writer_finish(&f->writer, &err);
    if (result != MS_OK && code == FINE && f->out.error == 0) {
        code = complain_of("writing", result, &err);
    }
    int closed = listing_close(it);
    if (closed == DAMAGED) f->code = DAMAGED;
    complain_of_events(f->job);
    if (code == FINE && closed != DAMAGED) code = closed;
    return output_end(&f->out, code);
}

/* Returns the number up to which messages of the location were printed. */
static uint64_t follow_last(follower *f, const ms_msg *msg)
{
    const tally_row *place = f->each ? tally_row_of(&f->places, location_of(msg)) : NULL;
    return place != NULL ? place->count : f->last;
}

/* Prints the messages of the query, each with its complete text. */
static int follow_query(follower *f, const ms_query *q)
{
    ms_cursor it;
    const ms_msg *msg;
    listing l = {f->job->store, q, NULL, NULL, NULL};
    bool whole = f->job->options->to != NULL, known = f->each && q->raw == 0;
    ms_arena_reset(&f->job->arena);
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        bool later = whole && (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0;
        /* what came since its location was listed is printed in the next turn */
        if (known && ms_seq(msg) > follow_last(f, msg)) continue;
        code = later ? follow_later(f, ms_seq(msg)) : follow_print(f, msg);
    }
    return follow_end(f, &it, code);
}

/* Prints a change of a message: its present form, or the range that was hidden. The
 * numbers to which q was narrowed do not count: they are of new messages. */
static int follow_change(follower *f, const ms_query *q, const ms_msg *change)
{
    ms_error err;
    const ms_msg *msg;
    job *j = f->job;
    ms_query every = *q;
    uint64_t seq = ms_seq(change);
    bool format = j->options->to != NULL;
    every.after_seq = f->after;
    every.before_seq = 0;
    if (ms_kind_of(change) == MS_KIND_HIDE && !format) return follow_print(f, change);
    if (ms_kind_of(change) != MS_KIND_AMEND || seq > follow_last(f, change)) return FINE;
    if (format && !follow_ended(f, seq)) return FINE;
    ms_arena_reset(&j->arena);
    ms_result result = get_shown(j->store, seq, &j->arena, &msg, &err);
    if (result == MS_E_CONFLICT) /* the file was replaced: told once, and read on */
        result = get_shown(j->store, seq, &j->arena, &msg, &err);
    if (result == MS_E_NOT_FOUND) return FINE; /* hidden since */
    if (result != MS_OK) {
        int code = complain_of("reading a change", result, &err);
        if (code == DAMAGED) f->code = code;
        return code == DAMAGED ? FINE : code;
    }
    return ms_query_match(&every, msg) ? follow_print(f, msg) : FINE;
}

static uint64_t change_hash(const ms_msg *change)
{
    int64_t ns = 0;
    uint64_t hash = ms_seq(change) ^ (uint64_t)ms_kind_of(change) << 56;
    (void)ms_time(change, &ns);
    hash = hash * 31 + (uint64_t)ns;
#define X(number, name, member, kind)                                                   \
    hash = hash * 31 + hash_text(ms_get(change, MS_F_##name).text);
    MS_FIELDS(X)
#undef X
    return hash;
}

/* Keeps the hash of the nth change after the mark. Returns whether it is
 * known: a rewrite has copied it from the file before, where it was handled. */
static int follow_handled(follower *f, const ms_msg *change, size_t n, bool *known)
{
    if (n >= f->handled.cap) {
        size_t cap = f->handled.cap > 0 ? 2 * f->handled.cap : 64;
        uint64_t *items = realloc(f->handled.items, cap * sizeof *items);
        if (items == NULL) return no_memory();
        f->handled.items = items;
        f->handled.cap = cap;
    }
    uint64_t hash = f->handled.items[n] = change_hash(change);
    while (f->at_copied < f->n_copied && f->copied.items[f->at_copied] != hash)
        f->at_copied++;
    *known = f->at_copied < f->n_copied;
    if (*known) f->at_copied++;
    return FINE;
}

/* Begins after f->last in a new file. None of its changes was handled; but a rewrite may
 * have copied some that were (copies). */
static void follow_from_last(follower *f, bool copies)
{
    hashes handled = f->handled;
    f->handled = f->copied;
    f->copied = handled;
    f->n_copied = copies ? f->marked : 0;
    f->at_copied = f->marked = 0;
    f->mark = f->last;
}

/* Prints new changes of printed messages; with --raw every new record. silent: only
 * remembers where the changes end. */
static int follow_changes(follower *f, const ms_query *q, bool silent)
{
    ms_cursor it;
    const ms_msg *msg;
    bool raw = GIVEN(f->job->options, RAW);
    size_t at = 0;
    ms_query records = {0};
    listing l = {f->job->store, &records, NULL, NULL, NULL};
    records.location = q->location;
    records.after_seq = f->mark;
    records.raw = raw ? MS_RAW_ALL : MS_RAW_MESSAGES | MS_RAW_AMENDS | MS_RAW_HIDES;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && f->out.error == 0 && (msg = ms_next(&it)) != NULL) {
        bool message = ms_kind_of(msg) == MS_KIND_MESSAGE, known = false;
        if (message) {
            f->mark = ms_seq(msg);
            f->marked = at = f->n_copied = 0;
        } else if (at++ < f->marked) {
            continue;
        } else {
            code = follow_handled(f, msg, f->marked, &known);
            f->marked = at;
        }
        if (silent || known || code != FINE) continue;
        code = raw ? follow_print(f, msg) : message ? FINE : follow_change(f, q, msg);
    }
    return follow_end(f, &it, code);
}

/* Prints the messages up to the mark (follow_changes has printed them with --raw). */
static int follow_new(follower *f, ms_query *q)
{
    if (f->mark <= f->last) return FINE;
    q->after_seq = f->last;
    q->before_seq = f->mark + 1;
    f->last = f->mark;
    int code = GIVEN(f->job->options, RAW) ? FINE : follow_query(f, q);
    if (code == CONFLICT) f->last = q->after_seq; /* none of them was printed */
    return code;
}

/* Returns whether a file is the open one. */
static bool is_followed(const follower *f, const struct stat *file)
{
    return file->st_ino == f->file.st_ino && file->st_dev == f->file.st_dev;
}

/* Opens the path, and remembers which file that was. */
static int follow_open(follower *f)
{
    job *j = f->job;
    struct stat now;
    const char *path = j->options->files[0];
    int code = FINE;
    do {
        if (j->store != NULL) ms_close(j->store);
        j->store = NULL;
        memset(&f->file, 0, sizeof f->file);
        (void)stat(path, &f->file);
        code = open_to_read(j);
    } while (code == FINE && stat(path, &now) == 0 && !is_followed(f, &now));
    return code;
}

/* Forgets messages that were being written, and that the store has no more. */
static size_t follow_forget(follower *f)
{
    size_t n = 0;
    const ms_msg *msg;
    for (size_t i = f->n_writing; i-- > 0;) {
        ms_arena_reset(&f->job->arena);
        if (get_shown(f->job->store, f->writing[i], &f->job->arena, &msg, NULL) !=
            MS_E_NOT_FOUND)
            continue;
        f->writing[i] = f->writing[--f->n_writing];
        n++;
    }
    return n;
}

/* Finds out whether the open file is still of the log that was followed. If not, or if it
 * has fewer messages, says so, and goes on from the start, or from its end. */
static int follow_compare(follower *f)
{
    static const unsigned char unknown[16];
    ms_error err;
    ms_log_info info;
    uint64_t newest = 0;
    const char *path = f->job->options->files[0];
    if (is_postgres(path)) return FINE;
    ms_result result = ms_log_stat(f->job->store, &info, &err);
    if (result == MS_OK) result = ms_wait(f->job->store, 0, 0, &newest, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    bool known = memcmp(info.lineage, unknown, sizeof unknown) != 0;
    bool other = known && memcmp(f->lineage, unknown, sizeof unknown) != 0 &&
                 memcmp(info.lineage, f->lineage, sizeof info.lineage) != 0;
    f->unsure = !known;
    if (known) memcpy(f->lineage, info.lineage, sizeof f->lineage);
    if (other) {
        complain("%s: another log is there now, which is shown from its first message",
                 path);
        f->after = f->last = 0;
        follow_from_last(f, false);
    } else if (known && newest < f->last && f->last > f->after) {
        complain("%s: an older file is there now: it has messages up to %" PRIu64
                 ", not %" PRIu64, path, newest, f->last);
        f->last = newest;
        follow_from_last(f, false);
    }
    size_t unfinished = other ? f->n_writing : follow_forget(f);
    if (other) f->n_writing = 0;
    if (unfinished > 0)
        complain("%s: %zu messages that were being written are not in the new file", path,
                 unfinished);
    return FINE;
}

/* Opens the new file after a rewrite has replaced the log. Before that it prints what the
 * old one got last: a rewrite puts changes into their messages, and may drop some. The
 * handle of the old file fails once with MS_E_CONFLICT, here in ms_wait, and reads on. */
static int follow_file(follower *f, ms_query *q)
{
    struct stat now;
    job *j = f->job;
    uint64_t newest;
    if (stat(j->options->files[0], &now) != 0 || is_followed(f, &now)) return FINE;
    (void)ms_wait(j->store, f->newest, 0, &newest, NULL);
    int code = follow_changes(f, q, false);
    if (code == FINE) code = follow_new(f, q);
    if (code == CONFLICT || code == DAMAGED) {
        complain("%s: what the file got last that was replaced may not be shown",
                 j->options->files[0]);
        f->code = DAMAGED;
    } else if (code != FINE) {
        return code;
    }
    follow_from_last(f, true);
    code = follow_open(f);
    return code == FINE ? follow_compare(f) : code;
}

/* After MS_E_CONFLICT: opens the new file, or, if the path has no other, the same one
 * again: a handle that has missed a damaged index reads no further. Returns `code` if
 * that was done, and nothing was read since. */
static int follow_again(follower *f, ms_query *q, int code)
{
    job *j = f->job;
    struct stat before = f->file;
    int opened = follow_file(f, q);
    if (opened != FINE || !is_followed(f, &before)) return opened;
    if (f->reopened || is_postgres(j->options->files[0])) return code;
    f->reopened = true;
    opened = follow_open(f);
    return opened == FINE ? follow_compare(f) : opened;
}

/* Prints the new messages of each location. q NULL: only remembers where each ends. */
static int follow_each(follower *f, ms_query *q)
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
        tally_row *row = tally_row_of(&f->places, place->location);
        if (row == NULL) code = no_memory();
        if (row == NULL) break;
        uint64_t after = row->count > 0 ? row->count : f->job->options->after;
        if (place->last_seq <= after) continue;
        row->count = place->last_seq;
        if (q == NULL) continue;
        q->location = place->location;
        q->after_seq = after;
        q->before_seq = place->last_seq + 1;
        code = follow_query(f, q);
        q->location = ms_str_of(NULL);
    }
    ms_arena_deinit(&arena);
    return code;
}

/* Returns whether a server has changed since it was read, or may have. */
static bool follow_moved(follower *f)
{
    ms_stat now, before = f->totals;
    if (ms_store_stat(f->job->store, &now, NULL) != MS_OK) return true;
    f->totals = now;
    return now.messages != before.messages || now.hidden != before.hidden ||
           now.changes != before.changes;
}

/* Prints new messages, or waits for a moment if there are none. */
static int follow_on(follower *f, ms_query *q, double left)
{
    ms_error err;
    const options *o = f->job->options;
    bool server = is_postgres(o->files[0]), moved = false;
    bool at_place = server && o->location != NULL; /* of a server's totals nothing more */
    uint32_t most = at_place ? 5 * FOLLOW_MS : FOLLOW_MS;
    uint32_t pause = left * 1e3 < most ? (uint32_t)(left * 1e3) : most;
    uint64_t newest = f->newest;
    ms_result result = at_place ? wait_postgres(f->job, q->location, &f->place, pause,
                                                &moved, &err)
                                : ms_wait(f->job->store, newest, pause, &f->newest, &err);
    if (result == MS_E_CONFLICT) {
        f->newest = newest;
        int again = follow_again(f, q, CONFLICT);
        if (again != CONFLICT) return again;
    }
    if (result != MS_OK) return complain_of("waiting", result, &err);
    if (server && !(at_place ? moved : follow_moved(f))) return FINE;
    int code = f->unsure ? follow_compare(f) : FINE;
    if (code == FINE) code = follow_changes(f, q, false);
    if (code != FINE) return code;
    f->reopened = false;
    if (f->each && !GIVEN(o, RAW)) return follow_each(f, q);
    if (f->mark <= f->last) return server ? FINE : follow_file(f, q);
    return follow_new(f, q);
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
    f->last = f->newest;
    if (location.len == 0) return FINE;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    f->last = (msg = ms_next(&it)) != NULL ? ms_seq(msg) : 0;
    return listing_close(&it);
}

/* Begins with the newest messages (with --raw, records), or after the named one. */
static int follow_begin(follower *f, ms_query *q)
{
    const options *o = f->job->options;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION)};
    ms_writer_init(&f->writer, o->to, &opts, &f->arena, emit, &f->out);
    f->table = new_table(NULL);
    f->table.located = o->location == NULL;
    f->each = is_postgres(o->files[0]) && o->location == NULL;
    f->after = f->last = f->mark = o->after;
    if (GIVEN(o, AFTER)) return FINE;
    (void)follow_moved(f);
    int code = follow_newest(f, q->location);
    if (code == FINE && f->each) code = follow_each(f, NULL);
    if (code != FINE) return code;
    f->mark = f->last;
    code = follow_changes(f, q, true);
    if (code != FINE || (f->last == 0 && f->marked == 0)) return code;
    listing l = {f->job->store, q, NULL, &f->job->arena, NULL};
    q->limit = GIVEN(o, LIMIT) ? o->limit : FOLLOW_NEWEST;
    if (GIVEN(o, RAW)) {
        q->raw = MS_RAW_ALL;
        q->arena = NULL;
        code = GIVEN(o, JSON) ? FINE : raw_measure(&l, &f->table);
    } else {
        q->before_seq = f->last + 1;
        code = o->to == NULL ? table_measure(&l, &f->table) : FINE;
    }
    f->table.located = o->location == NULL;
    return code == FINE ? follow_query(f, q) : code;
}

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
    f.job = j;
    f.out.file = stdout;
    int code = check_raw("follow", o);
    if (code == FINE) code = follow_open(&f);
    if (code == FINE) code = follow_compare(&f);
    if (code != FINE) return code;
    ms_query q = query_of(o, &j->arena);
    q.location = ms_str_of(o->location);
    code = follow_begin(&f, &q);
    q.limit = 0;
    while (code == FINE && !stopped) {
        double left = end - clock_seconds();
        if (left <= 0) break;
        code = follow_on(&f, &q, left);
        if (code == CONFLICT) code = follow_again(&f, &q, code);
    }
    ms_arena_deinit(&f.arena);
    tally_free(&f.places);
    free(f.writing);
    free(f.handled.items);
    free(f.copied.items);
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
    "format each is written once, when it is whole. Without a STORE it is the usual log\n"
    "of sync.\n",
    false,
};
