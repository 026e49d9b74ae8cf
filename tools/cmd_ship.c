/* msgstore ship: copies logs into PostgreSQL, each record once.
 *
 * A log is a source, named by its lineage, which a compaction keeps. Its position on the
 * server moves by compare and set. A log that cannot be shipped (its numbers were used
 * before, a message is too large, it cannot be read) stops alone: it is named, the others
 * go on, and the exit code is that of the first one. Errors of the server end the run. */

#define _GNU_SOURCE
#include "commands.h"
#include "files.h"
#include "json.h"
#include "postgres.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_POSTGRES
#include "../backends/msgstore_postgres.h"

enum {
    SHIP_MESSAGES = 1000, SHIP_BYTES = 4 << 20, SHIP_MS = 200,
    SHIP_LOOK_S = 2,          /* between two looks for new logs */
    SHIP_CHECK_S = 5,         /* between two readings of a position that rests */
    SHIP_RETRY_S = 30         /* until a log that stopped is tried again */
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* The number of a message that was left out, since its key is another one's. */
typedef struct clash {
    uint64_t key;
    bool value;
} clash;

/* A log that is being shipped. */
typedef struct shipment {
    char *path;
    options options;          /* of the job: they name this log alone */
    job log;
    ms_store *to;
    bool open, named;         /* named: as an argument, not found in a folder */
    bool stale;               /* the handle must be opened again, */
    bool reopened;            /* and was, and nothing was read since */
    ms_log_info info;         /* its lineage names the source */
    bool durable;             /* all of it is, when the pass began */
    bool compacted;           /* what is compared may be changed messages */
    ms_pg_position at;        /* all records up to here are shipped, */
    ms_pg_position noted;     /* and up to here the server has the position */
    ms_envelope *rows;        /* the next rows: an stb_ds array */
    size_t bytes;             /* of the rows */
    ms_arena names;           /* of their locations, with --prefix */
    clash *clashes;           /* an stb_ds map */
    uint64_t messages, changes, left_out;
    uint64_t retired;         /* records under a rule of retire, in this run */
    uint64_t met;             /* damaged records that this pass knows of, */
    uint64_t passed;          /* those of them that are before the position, */
    uint64_t tail;            /* and those after it: the next pass meets them */
    uint64_t damaged;         /* damaged records that were passed in this run */
    uint64_t waiting;         /* records that are not durable yet, or not shipped */
    int code;                 /* of the first thing that went wrong */
    const char *state;        /* in a word, for --status and --metrics */
    bool halted;              /* it stops, and is tried again after a while */
    bool complete;            /* the last pass came to the end of the log */
    double checked, retried;
} shipment;

/* All of them. */
typedef struct fleet {
    job *job;
    shipment **ships;         /* an stb_ds array */
    double looked, written;
    int code;
} fleet;

static ms_str source_of(const shipment *s)
{
    return ms_str_n((const char *)s->info.lineage, sizeof s->info.lineage);
}

static void drop_rows(shipment *s)
{
    arrsetlen(s->rows, 0);
    s->bytes = 0;
    ms_arena_reset(&s->names);
}

/* Returns whether an error is of the server, and would meet all logs. */
static bool is_of_server(ms_result result)
{
    static const ms_result results[] = {
        MS_E_UNREACHABLE, MS_E_BUSY, MS_E_FULL, MS_E_READ_ONLY, MS_E_FOREIGN,
        MS_E_NO_MEMORY, MS_E_IO, MS_E_FORKED};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i] == result) return true;
    }
    return false;
}

/* Returns whether a rewrite has replaced the file. The new one has what was not
 * shipped: the next pass opens it. */
static bool is_replaced(const shipment *s)
{
    ms_log_info now;
    return s->log.store != NULL && ms_log_stat(s->log.store, &now, NULL) == MS_OK &&
           now.replaced && access(s->path, F_OK) == 0;
}

/* Returns whether the handle reads no further, though its file is in place: it has missed
 * an index that is damaged. */
static bool is_stale(const shipment *s)
{
    ms_cursor it;
    ms_query q = {0};
    q.raw = MS_RAW_ALL;
    q.limit = 1;
    if (s->log.store == NULL) return false;
    ms_result result = ms_query_open(s->log.store, &q, &it, NULL);
    if (result == MS_OK) ms_cursor_close(&it, NULL);
    return result == MS_E_CONFLICT;
}

/* Stops this log (and returns FINE), or, with an error of the server, all. What fails
 * since the file was replaced, or the handle is stale, ends this pass alone. */
static int halt(shipment *s, const char *what, ms_result result, const ms_error *err)
{
    char text[1200];
    if (result == MS_E_CONFLICT && s->checked > 0 && is_replaced(s)) {
        s->checked = 0;
        return FINE;
    }
    if (result == MS_E_CONFLICT && s->checked > 0 && !s->reopened && is_stale(s)) {
        s->stale = true;
        s->checked = 0;
        return FINE;
    }
    if (is_of_server(result)) return complain_of(what, result, err);
    snprintf(text, sizeof text, "%.900s: %.200s", s->path, what);
    int code = s->code;
    bool again = s->halted || (code != FINE && s->retried > 0);
    if (!again) code = complain_of(text, result, err);
    if (s->code == FINE) s->code = code;
    s->halted = true;
    s->retried = clock_seconds();
    s->state = result == MS_E_CONFLICT ? "clash" : "failed";
    return FINE;
}

/* Names a record that is left out. */
static void leave_out(shipment *s, const char *what, uint64_t seq, const char *why)
{
    complain("%s: %s %" PRIu64 " is left out: %s", s->path, what, seq, why);
    s->left_out++;
    s->at.left_out++;
    if (s->code == FINE) s->code = CONFLICT;
}

/* Returns a number for the content of a message. */
static uint64_t mark_of(const ms_msg *msg)
{
    ms_value v[MS_FIELD_COUNT];
    uint64_t h = (uint64_t)ms_type_of(msg) + 1;
    memset(v, 0, sizeof v);
    (void)ms_fields(msg, v);
    for (int f = 1; f < MS_FIELD_COUNT; f++) {
        if (v[f].text.ptr != NULL) h = h * 31 + hash_text(v[f].text) + (uint64_t)f;
    }
    h &= INT64_MAX;
    return h != 0 ? h : 1;
}

/* Returns the mark of a position after a change, from the one before it. Its lower half
 * is of what a redaction keeps: kinds, numbers, times, sizes. */
static uint64_t mark_after(const ms_pg_position *at, uint64_t mark, const ms_msg *change)
{
    int64_t time = 0;
    uint64_t kind = (uint64_t)ms_kind_of(change), size = (uint64_t)ms_size(change);
    uint64_t kept = at->changes == 0 ? at->message : mark & UINT32_MAX;
    (void)ms_time(change, &time);
    kept = ((kept * 31 + ms_seq(change)) * 31 + size) * 31 + kind;
    kept = (kept * 31 + (uint64_t)time) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    uint64_t all = (mark >> 32) * 31 + mark_of(change) + kept;
    mark = (all << 32 | kept) & INT64_MAX;
    return mark != 0 ? mark : 1;
}

/* Sets *out to a location's name on the server: with --prefix before it. */
static ms_result name_there(const shipment *s, ms_str location, ms_arena *arena,
                            ms_str *out)
{
    ms_str begin = ms_str_of(s->options.prefix);
    char *p = ms_arena_alloc(arena, begin.len + location.len + 1);
    if (p == NULL) return MS_E_NO_MEMORY;
    memcpy(p, begin.ptr, begin.len);
    if (location.len > 0) memcpy(p + begin.len, location.ptr, location.len);
    *out = ms_str_n(p, begin.len + location.len);
    return MS_OK;
}

/* Sets *out to a record as it is on the server: the record itself, or with --prefix a
 * copy in the arena. */
static ms_result record_there(const shipment *s, const ms_msg *msg, ms_arena *arena,
                              const ms_msg **out, ms_error *err)
{
    ms_record record = {0};
    *out = msg;
    if (s->options.prefix == NULL || msg == NULL) return MS_OK;
    record.kind = ms_kind_of(msg);
    record.envelope = ms_envelope_of(msg);
    ms_result result = name_there(s, location_of(msg), arena, &record.envelope.location);
    if (result != MS_OK) return ms_error_set(err, result, "out of memory");
    return ms_record_encode(&record, arena, out, err);
}

/* Does what ms_pg_ship_look does, about a message of the log. */
static ms_result look_there(shipment *s, const ms_msg *msg, ms_error *err)
{
    ms_arena arena = {0};
    ms_result result = record_there(s, msg, &arena, &msg, err);
    if (result == MS_OK) result = ms_pg_ship_look(s->to, source_of(s), msg, err);
    ms_arena_deinit(&arena);
    return result;
}

/* Returns whether an amendment has the content of another one of its message, which may
 * be shipped, and is what the log shows. */
static bool is_text_again(shipment *s, const ms_msg *amend)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    size_t equal = 0;
    if (ms_kind_of(amend) != MS_KIND_AMEND) return false;
    q.location = location_of(amend);
    q.raw = MS_RAW_AMENDS;
    q.about_seq = ms_seq(amend);
    if (ms_query_open(s->log.store, &q, &it, NULL) != MS_OK) return false;
    while ((msg = ms_next(&it)) != NULL) equal += mark_of(msg) == mark_of(amend);
    ms_cursor_close(&it, NULL);
    return equal > 1 &&
           get_shown(s->log.store, ms_seq(amend), NULL, &msg, NULL) == MS_OK &&
           mark_of(msg) == mark_of(amend);
}

/* Does what ms_pg_ship_change does, with records of the log. */
static ms_result change_there(shipment *s, const ms_msg *change, const ms_msg *msg,
                              uint64_t *retired, ms_error *err)
{
    ms_arena arena = {0};
    ms_record now = {0};
    ms_result result = MS_OK;
    if (is_text_again(s, change)) { /* else it would be taken for the earlier one */
        now.kind = MS_KIND_MESSAGE;
        now.envelope = ms_envelope_of(change);
        result = ms_record_encode(&now, &arena, &change, err);
    }
    if (result == MS_OK) result = record_there(s, change, &arena, &change, err);
    if (result == MS_OK) result = record_there(s, msg, &arena, &msg, err);
    if (result == MS_OK) {
        result = ms_pg_ship_change(s->to, source_of(s), &s->noted, change, msg, retired,
                                   err);
    }
    ms_arena_deinit(&arena);
    return result;
}

/* Returns why the change of a message is left out; NULL: the result is another one. */
static const char *why_not(ms_result result)
{
    switch (result) {
    case MS_E_HIDDEN: return "the message is hidden on the server";
    case MS_E_NOT_FOUND: return "the message was not shipped";
    case MS_E_CLOSED: return "the message is not an open stream on the server";
    case MS_E_CONFLICT: return "the message was changed on the server";
    case MS_E_KEY_REUSED: return "the message that has its key is not of this log";
    default: return NULL;
    }
}

/* Returns whether a record does not fit because the server has another position than this
 * shipper has noted. Then that is read, and what the server lacks is shipped first. */
static bool has_moved(shipment *s, ms_result result)
{
    ms_pg_position now;
    if (why_not(result) == NULL) return false;
    if (ms_pg_ship_begin(s->to, source_of(s), &now, NULL) == MS_OK &&
        now.message == s->noted.message && now.changes == s->noted.changes) {
        return false;
    }
    s->checked = 0;
    return true;
}

/* Sets *ahead to the damaged records after the position: of the tail, of which a cursor
 * knows when it opens, or (all) of the whole log. False: it is not known. */
static bool damage_ahead(shipment *s, bool all, uint64_t *ahead)
{
    ms_cursor it;
    ms_query q = {0};
    q.raw = MS_RAW_ALL;
    q.after_seq = s->at.message;
    if (ms_query_open(s->log.store, &q, &it, NULL) != MS_OK) return false;
    while (all && ms_next(&it) != NULL) continue;
    *ahead = it.damaged;
    ms_cursor_close(&it, NULL);
    return true;
}

/* Counts the damaged records that this pass has passed. */
static void count_passed(shipment *s, uint64_t passed)
{
    s->damaged += passed - s->passed; /* it may be fewer: then both wrap around */
    s->at.left_out += passed - s->passed;
    s->passed = passed;
}

static int note_position(shipment *s)
{
    ms_error err;
    uint64_t ahead;
    if (s->met > s->passed && damage_ahead(s, false, &ahead) &&
        s->met > s->passed + ahead) {
        count_passed(s, s->met - ahead);
    }
    bool begun = s->noted.message > 0 || s->noted.changes > 0;
    bool moved = s->at.message != s->noted.message || s->at.changes != s->noted.changes ||
                 s->at.left_out != s->noted.left_out || s->at.retired != s->noted.retired;
    if (begun && memcmp(s->noted.file, s->info.id, sizeof s->noted.file) != 0)
        moved = true; /* the file was compared, and need not be once more */
    if (!moved) return FINE;
    memcpy(s->at.file, s->info.id, sizeof s->at.file);
    ms_result result = ms_pg_ship_end(s->to, source_of(s), &s->noted, &s->at, &err);
    if (result == MS_OK) s->noted = s->at;
    s->checked = result == MS_E_CONFLICT ? 0 : clock_seconds();
    return result == MS_OK || result == MS_E_CONFLICT
               ? FINE : complain_of("noting the position", result, &err);
}


/* ---- Where to go on ---------------------------------------------------------------- */

/* Reads one message of the log as it was appended. *msg NULL: the log has none of that
 * number. The message is valid until the caller closes the cursor. */
static ms_result read_message(shipment *s, uint64_t seq, ms_cursor *it,
                              const ms_msg **msg, ms_error *err)
{
    ms_query q = {0};
    *msg = NULL;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    ms_result result = ms_query_open(s->log.store, &q, it, err);
    if (result == MS_OK) *msg = ms_next(it);
    return result;
}

static bool is_redacted(shipment *s, uint64_t seq)
{
    const ms_msg *shown;
    return get_shown(s->log.store, seq, NULL, &shown, NULL) == MS_OK &&
           (ms_flags(shown) & MS_FLAG_REDACTED) != 0;
}

/* Takes the key of a message from an earlier one that a compaction of the log has
 * forgotten. A copy of the log that was written to has another message with that one's
 * number, and nothing changes. Where this fails, the next attempt to ship it does. */
static void take_key(shipment *s, const ms_msg *msg)
{
    ms_cursor it;
    ms_arena arena = {0};
    uint64_t earlier = 0;
    const ms_msg *there = msg, *same;
    ms_str name = source_of(s);
    ms_result result = record_there(s, msg, &arena, &there, NULL);
    if (result == MS_OK) result = ms_pg_ship_free(s->to, name, there, &earlier, NULL);
    if (result == MS_OK && earlier > 0 && earlier < ms_seq(msg) &&
        read_message(s, earlier, &it, &same, NULL) == MS_OK) {
        if (ms_cursor_close(&it, NULL) == MS_OK && same == NULL) {
            (void)ms_pg_ship_free(s->to, name, there, &earlier, NULL);
        }
    }
    ms_arena_deinit(&arena);
}

/* Returns whether records of a message may have been erased: it is redacted, or hidden,
 * when a redaction leaves no record. */
static bool may_be_erased(shipment *s, uint64_t seq)
{
    const ms_msg *shown;
    return get_shown(s->log.store, seq, NULL, &shown, NULL) != MS_OK ||
           (ms_flags(shown) & MS_FLAG_REDACTED) != 0;
}

/* Looks for the newest messages before the position, up to one that the server has, or
 * has another one for. A redacted one has nothing that another message with its number
 * would not have, too; one that was left out is not there. */
static ms_result look_before(shipment *s, ms_error *err)
{
    enum { MOST = 64 };
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    uint64_t seqs[MOST];
    size_t n = 0;
    q.raw = MS_RAW_MESSAGES;
    q.before_seq = s->at.message;
    q.limit = MOST;
    ms_result result = ms_query_open(s->log.store, &q, &it, err);
    if (result != MS_OK) return result;
    while (n < MOST && (msg = ms_next(&it)) != NULL) {
        if (!is_redacted(s, ms_seq(msg))) seqs[n++] = ms_seq(msg);
    }
    ms_cursor_close(&it, NULL);
    for (bool found = false; n > 0 && !found; n--) {
        result = read_message(s, seqs[n - 1], &it, &msg, err);
        if (result == MS_OK && msg != NULL) result = look_there(s, msg, err);
        ms_cursor_close(&it, NULL);
        found = result != MS_E_KEY_REUSED && result != MS_E_NOT_FOUND;
        if (!found) result = MS_OK;
    }
    return result;
}

/* Reads the changes up to the position and sets *mark to its mark, which was that of its
 * message. *same: it is the noted one. MS_E_CONFLICT: there are fewer, or their mark is
 * another one. Where a message may have been redacted since, only what a redaction keeps
 * is compared. */
static ms_result check_changes(shipment *s, uint64_t *mark, bool *same, ms_error *err)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    ms_pg_position at = s->at;
    bool erased = at.message > 0 && may_be_erased(s, at.message);
    at.changes = 0;
    q.raw = MS_RAW_ALL;
    q.after_seq = at.message;
    *same = *mark == at.mark;
    if (s->at.changes == 0) return MS_OK;
    ms_result result = ms_query_open(s->log.store, &q, &it, err);
    if (result != MS_OK) return result;
    while (at.changes < s->at.changes && (msg = ms_next(&it)) != NULL &&
           ms_kind_of(msg) != MS_KIND_MESSAGE) {
        *mark = mark_after(&at, *mark, msg);
        erased = erased || (ms_seq(msg) != 0 && may_be_erased(s, ms_seq(msg)));
        at.changes++;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) return MS_OK; /* the pass reports damage */
    *same = *mark == at.mark;
    bool kept = at.mark == 0 || (erased && (uint32_t)*mark == (uint32_t)at.mark);
    if (at.changes == s->at.changes && (*same || kept)) return MS_OK;
    return ms_error_set(err, MS_E_CONFLICT, "the server has other changes after it: the "
                        "log was restored from an older copy, or is one of two copies "
                        "that were written to; nothing more of it is shipped");
}

/* Checks that the log has given all numbers that were shipped. */
static int check_end(shipment *s)
{
    ms_error err;
    ms_stat stat;
    char what[80];
    ms_result result = ms_store_stat(s->log.store, &stat, &err);
    if (result == MS_OK && stat.last_seq < s->at.message &&
        stat.given_seq < s->at.message) {
        result = ms_error_set(&err, MS_E_CONFLICT, "it was shipped, and the log ends "
                              "before it: this is an older copy of the log");
    }
    snprintf(what, sizeof what, "message %" PRIu64, s->at.message);
    return result == MS_OK ? FINE : halt(s, what, result, &err);
}

/* Checks that the message at the position, and the changes after it, are those that were
 * shipped. If not, the log is a copy that was written to, and its numbers stand for other
 * messages here. */
static int check_position(shipment *s)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg = NULL;
    char what[80];
    uint64_t mark = 0;
    bool same;
    ms_error other;
    ms_result changes;
    snprintf(what, sizeof what, "message %" PRIu64, s->at.message);
    ms_result result = MS_OK;
    int code = check_end(s);
    if (code != FINE || s->halted) return code;
    if (s->at.message > 0) {
        result = read_message(s, s->at.message, &it, &msg, &err);
        if (result != MS_OK) return halt(s, what, result, &err);
        if (msg == NULL) {
            ms_cursor_close(&it, NULL);
            return FINE;
        }
        mark = mark_of(msg);
    }
    changes = check_changes(s, &mark, &same, &other);
    if (msg != NULL && !same) {
        result = is_redacted(s, s->at.message) ? look_before(s, &err)
                                               : look_there(s, msg, &err);
        bool absent = result == MS_E_NOT_FOUND || result == MS_E_KEY_REUSED;
        bool fits = s->at.changes > 0 && changes == MS_OK; /* it was left out */
        if (absent) result = fits ? MS_OK : MS_E_CONFLICT;
    }
    if (msg != NULL) ms_cursor_close(&it, NULL);
    if (result == MS_E_CONFLICT) {
        result = ms_error_set(&err, result, "the server has another message with this "
                              "number: the log was restored from an older copy, or is a "
                              "copy that was written to; nothing of it is shipped");
    }
    if (result != MS_OK) return halt(s, what, result, &err);
    if (changes != MS_OK) return halt(s, what, changes, &other);
    s->at.mark = mark;
    return FINE;
}

/* Reads the position from the server, if it has not been for a while, and goes on there
 * if it is another one. The first time: begins there. */
static int find_position(shipment *s, double every)
{
    ms_error err;
    ms_pg_position now;
    static const unsigned char none[16];
    if (s->checked > 0 && clock_seconds() - s->checked < every) return FINE;
    ms_result result = ms_pg_ship_begin(s->to, source_of(s), &now, &err);
    if (result != MS_OK) return halt(s, "reading the position", result, &err);
    int code;
    bool same = s->checked > 0 && now.message == s->noted.message &&
                now.changes == s->noted.changes;
    s->checked = clock_seconds();
    s->noted = now;
    if (same) return FINE;
    s->at = now;
    drop_rows(s);
    if (memcmp(now.file, none, sizeof none) != 0
            ? memcmp(now.file, s->info.id, sizeof now.file) == 0
            : memcmp(s->info.lineage, s->info.id, sizeof now.file) == 0) {
        s->compacted = memcmp(s->info.lineage, s->info.id, sizeof now.file) != 0;
        return check_position(s);
    }
    code = check_end(s);
    if (code != FINE || s->halted) return code;
    s->compacted = true; /* its changes were applied: all of it is compared */
    s->at.message = s->at.changes = s->at.mark = 0;
    s->at.left_out = s->at.retired = 0; /* they are counted again */
    return FINE;
}


/* ---- Records ----------------------------------------------------------------------- */

/* Counts records that the server does not store since they fall under a rule. */
static void count_retired(shipment *s, uint64_t retired)
{
    s->retired += retired;
    s->at.retired += retired;
}

/* Ships one message. Returns what stops the log. */
static ms_result ship_one(shipment *s, const ms_envelope *row, const ms_msg *msg,
                          ms_error *err)
{
    uint32_t changed = MS_FLAG_AMENDED | MS_FLAG_REDACTED | MS_FLAG_UNFINISHED;
    uint64_t retired = 0;
    ms_result result = ms_pg_ship(s->to, source_of(s), &s->noted, row, 1, &retired, err);
    s->messages -= retired;
    if (has_moved(s, result)) return result;
    if (result == MS_E_KEY_REUSED) {
        hmput(s->clashes, row->seq, true);
        leave_out(s, "message", row->seq, "another source has used its key for another "
                                          "message");
        s->messages--;
        return MS_OK;
    }
    if (result == MS_E_CONFLICT && s->compacted && row->key.ptr != NULL && msg != NULL) {
        take_key(s, msg);
        result = ms_pg_ship(s->to, source_of(s), &s->noted, row, 1, &retired, err);
    }
    if (result == MS_E_CONFLICT && s->compacted && (row->flags & changed) != 0 && msg) {
        result = change_there(s, msg, msg, &retired, err);
        s->changes += result == MS_OK;
    }
    count_retired(s, retired);
    return result;
}

/* Ships rows singly, up to the first one that stops the log. *done: rows before it. */
static ms_result ship_singly(shipment *s, size_t *done, ms_error *err)
{
    ms_result result = MS_OK;
    *done = 0;
    while (*done < arrlenu(s->rows) && result == MS_OK) {
        ms_cursor it;
        const ms_msg *msg;
        const ms_envelope *row = &s->rows[*done];
        result = read_message(s, row->seq, &it, &msg, err);
        if (result == MS_OK) result = ship_one(s, row, msg, err);
        ms_cursor_close(&it, NULL);
        *done += result == MS_OK;
    }
    return result;
}

/* Ships the collected messages, then notes the position. */
static int ship_rows(shipment *s)
{
    ms_error err;
    char what[80];
    size_t n = arrlenu(s->rows), done = n;
    uint64_t retired = 0;
    if (n == 0) return FINE;
    ms_result result = ms_pg_ship(s->to, source_of(s), &s->noted, s->rows, n, &retired,
                                  &err);
    if (has_moved(s, result)) {
        drop_rows(s);
        return FINE;
    }
    s->messages += n - retired;
    count_retired(s, retired);
    if (result == MS_E_KEY_REUSED || result == MS_E_CONFLICT ||
        result == MS_E_TOO_LARGE || result == MS_E_ARGUMENT) {
        result = ship_singly(s, &done, &err);
        if (has_moved(s, result)) {
            s->messages -= n - done;
            drop_rows(s);
            return FINE;
        }
    } else if (result != MS_OK) {
        done = 0;
    }
    s->messages -= n - done;
    snprintf(what, sizeof what, "message %" PRIu64, s->rows[done < n ? done : 0].seq);
    if (done > 0) {
        ms_cursor it;
        const ms_msg *msg;
        s->at.message = s->rows[done - 1].seq;
        s->at.changes = 0;
        s->at.mark = 0;
        if (read_message(s, s->at.message, &it, &msg, NULL) == MS_OK && msg != NULL) {
            s->at.mark = mark_of(msg);
        }
        ms_cursor_close(&it, NULL);
    }
    drop_rows(s);
    int code = result == MS_OK || !is_of_server(result) ? note_position(s) : FINE;
    if (result != MS_OK && code == FINE) code = halt(s, what, result, &err);
    return code;
}

static int ship_message(shipment *s, const ms_msg *msg)
{
    ms_envelope row = ms_envelope_of(msg);
    bool named = s->options.prefix == NULL ||
                 name_there(s, row.location, &s->names, &row.location) == MS_OK;
    if (!named) return no_memory();
    arrput(s->rows, row);
    s->bytes += ms_size(msg);
    bool full = arrlenu(s->rows) >= SHIP_MESSAGES || s->bytes >= SHIP_BYTES;
    return full ? ship_rows(s) : FINE;
}

/* Visits the messages of a location from first to last, as they were appended. */
static int ship_about(shipment *s, const ms_msg *change, uint64_t first, uint64_t last)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    uint64_t retired = 0;
    int code = FINE;
    q.location = ms_get(change, MS_F_LOCATION).text;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = first - 1;
    q.before_seq = last + 1;
    ms_result result = ms_query_open(s->log.store, &q, &it, &err);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        result = hmgeti(s->clashes, ms_seq(msg)) >= 0
                     ? MS_E_KEY_REUSED
                     : change_there(s, change, msg, &retired, &err);
        const char *why = has_moved(s, result) ? NULL : why_not(result);
        if (why == NULL) continue;
        leave_out(s, "a change of message", ms_seq(msg), why);
        result = MS_OK;
    }
    if (result != MS_OK && s->checked > 0)
        code = halt(s, "shipping a change", result, &err);
    count_retired(s, retired);
    ms_cursor_close(&it, NULL);
    return code;
}

/* Returns whether a change is what a redaction has left of one. The redaction is a record
 * of its own. */
static bool is_rest(const ms_msg *change)
{
    ms_arena arena = {0};
    ms_kind kind = ms_kind_of(change);
    bool erased = false, text = kind == MS_KIND_PART || (kind == MS_KIND_AMEND &&
                  (ms_flags(change) & MS_FLAG_REDACTED) == 0);
    void *copy = text ? ms_arena_alloc(&arena, ms_size(change)) : NULL;
    if (copy != NULL) {
        memcpy(copy, change, ms_size(change));
        ms_record_erase(copy);
        erased = mark_of((const ms_msg *)copy) == mark_of(change);
    }
    ms_arena_deinit(&arena);
    return erased;
}

/* Returns whether the log has no older facts of the location. */
static bool is_first(shipment *s, const ms_msg *facts)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    int64_t time = 0, first = 0;
    q.location = location_of(facts);
    q.raw = MS_RAW_LOCATIONS;
    q.limit = 1;
    q.oldest = true;
    if (ms_query_open(s->log.store, &q, &it, NULL) != MS_OK) return false;
    msg = ms_next(&it);
    bool same = msg != NULL && mark_of(msg) == mark_of(facts) &&
                ms_time(msg, &first) && ms_time(facts, &time) && first == time;
    ms_cursor_close(&it, NULL);
    return same;
}

/* A member of facts. */
typedef struct fact {
    ms_str name, value;
    size_t at;                /* of the record; HERE: of the log */
} fact;

static const size_t HERE = SIZE_MAX;

static int fact_order(const void *a, const void *b)
{
    const fact *x = a, *y = b;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = len > 0 ? memcmp(x->name.ptr, y->name.ptr, len) : 0;
    if (order != 0) return order;
    if (x->name.len != y->name.len) return x->name.len < y->name.len ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Adds the members of an object to an stb_ds array. */
static ms_result add_facts(fact **items, ms_str object, size_t at, ms_arena *arena,
                           ms_error *err)
{
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        fact f = {it.key, it.value, at};
        if (ms_json_string(it.key, arena, &f.name) != MS_OK) {
            return ms_error_set(err, MS_E_NO_MEMORY, "out of memory");
        }
        arrput(*items, f);
    }
    return MS_OK;
}

/* Makes an object of the members of HERE that are not the newest ones elsewhere, and, as
 * null, of those that HERE does not have. *any: it has one. */
static ms_result facts_that_differ(fact *items, ms_arena *arena, bool *any, ms_str *out,
                                   ms_error *err)
{
    ms_json_writer w;
    ms_buf buf = {0};
    size_t n = arrlenu(items);
    buf.arena = arena;
    if (n > 0) qsort(items, n, sizeof *items, fact_order);
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (size_t i = 0; i < n; i++) {
        const fact *f = &items[i], *before = i > 0 ? f - 1 : NULL;
        bool last = i + 1 == n || !ms_str_equal(f->name, items[i + 1].name);
        bool both = before != NULL && before->at != HERE &&
                    ms_str_equal(f->name, before->name);
        if (!last || (f->at == HERE && both && ms_str_equal(f->value, before->value)) ||
            (f->at != HERE && is_kind(f->value, MS_JSON_NULL))) {
            continue;
        }
        *any = true;
        ms_json_key(&w, f->name);
        ms_json_put_raw(&w, f->at == HERE ? f->value : MS_STR("null"));
    }
    ms_json_end(&w);
    ms_result result = ms_json_finish(&w);
    *out = ms_buf_text(&buf);
    return result == MS_OK ? result : ms_error_set(err, result, "out of memory");
}

/* Sets facts that a compaction has left: all that the location had then. Shipped are
 * those that the source has not set on the server, and as null those that it has set, and
 * the log has no more. Others may have set the rest since. */
static ms_result facts_there(shipment *s, const ms_msg *facts, uint64_t *retired,
                             ms_error *err)
{
    ms_str *texts = NULL, location, all = {0};
    size_t n = 0;
    ms_arena arena = {0};
    ms_record record = {0};
    bool any = false;
    fact *items = NULL;
    ms_result result = name_there(s, location_of(facts), &arena, &location);
    if (result == MS_OK) {
        result = ms_pg_ship_facts(s->to, source_of(s), location, &arena, &texts, &n, err);
    }
    for (size_t i = 0; result == MS_OK && i < n; i++) {
        result = add_facts(&items, texts[i], i, &arena, err);
    }
    if (result == MS_OK) {
        result = add_facts(&items, ms_content(facts).text, HERE, &arena, err);
    }
    if (result == MS_OK) result = facts_that_differ(items, &arena, &any, &all, err);
    arrfree(items);
    if (result == MS_OK && any) {
        record.kind = MS_KIND_LOCATION;
        record.envelope = ms_envelope_of(facts);
        record.envelope.content = ms_json(all);
        result = ms_record_encode(&record, &arena, &facts, err);
        if (result == MS_OK) result = change_there(s, facts, NULL, retired, err);
    }
    ms_arena_deinit(&arena);
    return result;
}

static int ship_change(shipment *s, const ms_msg *change)
{
    ms_error err;
    ms_str value;
    uint64_t first = ms_seq(change), last = first;
    int code = ship_rows(s);
    if (code != FINE || s->halted || s->checked == 0) return code;
    if (ms_kind_of(change) == MS_KIND_HIDE &&
        ms_json_member(ms_content(change).text, MS_STR("last"), &value)) {
        ms_json_u64(value, &last);
    }
    bool repeats = ms_repeats_facts(change); /* left out: others may have set facts */
    if (ms_kind_of(change) == MS_KIND_LOCATION && !repeats) {
        uint64_t retired = 0;
        ms_result result = s->compacted && is_first(s, change)
                               ? facts_there(s, change, &retired, &err)
                               : change_there(s, change, NULL, &retired, &err);
        count_retired(s, retired);
        if (result != MS_OK && !has_moved(s, result))
            code = halt(s, "shipping facts", result, &err);
    } else if (!repeats && !is_rest(change)) {
        code = ship_about(s, change, first, last);
    }
    if (code != FINE || s->halted || s->checked == 0) return code;
    s->changes += !repeats;
    s->at.mark = mark_after(&s->at, s->at.mark, change);
    s->at.changes++;
    return s->at.changes % 100 == 0 ? note_position(s) : FINE;
}

/* Returns whether a record may still be lost by a power loss. Of the changes after the
 * last durable message it is not known. seen: the message before the record. */
static bool may_be_lost(const shipment *s, const ms_msg *msg, uint64_t seen)
{
    if (s->durable) return false;
    if (ms_kind_of(msg) == MS_KIND_MESSAGE) return ms_seq(msg) > s->info.durable_seq;
    return seen >= s->info.durable_seq;
}

/* Ships the records after the position, or (count) counts them. */
static int ship_records(shipment *s, bool count)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    uint64_t skip = s->at.changes, seen = s->at.message;
    int code = FINE;
    bool end = false;
    q.raw = MS_RAW_ALL;
    q.after_seq = s->at.message;
    s->waiting = s->met = s->passed = s->tail = 0;
    ms_result result = ms_query_open(s->log.store, &q, &it, &err);
    if (result != MS_OK) return halt(s, "reading the log", result, &err);
    s->reopened = false;
    while (code == FINE && !s->halted && !stopped &&
           !(end = (msg = ms_next(&it)) == NULL)) {
        bool message = ms_kind_of(msg) == MS_KIND_MESSAGE;
        if (message) skip = 0;
        if (!message && skip > 0) {
            skip--;
        } else if (count || s->waiting > 0 || may_be_lost(s, msg, seen)) {
            s->waiting++;
        } else {
            s->met = it.damaged;
            code = message ? ship_message(s, msg) : ship_change(s, msg);
        }
        if (message) seen = ms_seq(msg);
        if (s->checked == 0) break; /* the position on the server moved */
    }
    end = end || (stopped && ms_next(&it) == NULL);
    if (code == FINE && !s->halted && s->checked > 0) code = ship_rows(s);
    if (it.damaged > 0 && !count) {
        while (ms_next(&it) != NULL) continue; /* the count is that of the whole log */
        if (damage_ahead(s, true, &s->tail)) {
            count_passed(s, it.damaged > s->tail ? it.damaged - s->tail : 0);
        }
        s->met = 0;
    }
    result = ms_cursor_close(&it, &err);
    if (code == FINE && result != MS_OK && !s->halted) {
        code = halt(s, "reading the log", result, &err);
        s->halted = false; /* it has shipped all others */
    }
    if (code == FINE && s->checked > 0 && !count) code = note_position(s);
    s->complete = end && code == FINE && !s->halted && s->checked > 0;
    return code;
}


/* ---- A log ------------------------------------------------------------------------- */

static shipment *ship_new(fleet *f, const char *path, bool named)
{
    shipment *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->path = copy_chars(path, strlen(path));
    s->options = *f->job->options;
    s->options.files = &s->path;
    s->options.n_files = 1;
    s->log.options = &s->options;
    s->to = f->job->store;
    s->named = named;
    s->state = "waits";
    arrput(f->ships, s);
    return s;
}

static void ship_close(shipment *s)
{
    if (!s->open) return;
    int code = close_job(&s->log);
    if (s->code == FINE) s->code = code;
    memset(&s->log, 0, sizeof s->log);
    s->log.options = &s->options;
    s->open = false;
    s->checked = 0;
    drop_rows(s);
}

/* Returns whether the file is empty, and has neither lineage nor id. */
static bool is_empty(const shipment *s)
{
    static const unsigned char none[16];
    return memcmp(s->info.lineage, none, sizeof none) == 0 &&
           memcmp(s->info.id, none, sizeof none) == 0;
}

/* Returns false where the lineage is damaged. */
static bool has_lineage(const shipment *s)
{
    static const unsigned char none[16];
    return memcmp(s->info.lineage, none, sizeof none) != 0 || is_empty(s);
}

/* Opens a log. Two files of one lineage would be one source. */
static int ship_open(fleet *f, shipment *s)
{
    ms_error err;
    ms_log_desc desc = {0};
    if (s->open) return FINE;
    desc.mode = MS_LOG_READ;
    desc.path = s->path;
    ms_result result = ms_log_open(&s->log.store, &desc, &err);
    if (result == MS_OK) result = ms_log_stat(s->log.store, &s->info, &err);
    s->open = s->log.store != NULL;
    s->log.log = s->open;
    if (result == MS_OK && !has_lineage(s)) {
        result = ms_error_set(&err, MS_E_DAMAGED,
                              "its lineage (bytes 56 to 75, and their copy at 4,152) is "
                              "damaged, so the server cannot know what it has of it: "
                              "'msgstore compact' makes a log with a lineage of its own, "
                              "all of which is shipped");
    }
    for (size_t i = 0; i < arrlenu(f->ships) && result == MS_OK; i++) {
        const shipment *other = f->ships[i];
        if (other == s || !other->open || is_empty(s) ||
            memcmp(other->info.lineage, s->info.lineage, sizeof s->info.lineage) != 0) {
            continue;
        }
        char text[256];
        snprintf(text, sizeof text, "it is a copy of %.150s, or that of it: ship one of "
                 "the two", other->path);
        result = ms_error_set(&err, MS_E_CONFLICT, text);
    }
    if (result == MS_OK) return FINE;
    /* an error of the file, whatever its code */
    if (is_of_server(result) && result != MS_E_NO_MEMORY) {
        result = result == MS_E_FOREIGN ? MS_E_DAMAGED : MS_E_ARGUMENT;
    }
    int code = halt(s, "opening", result, &err);
    ship_close(s);
    return code;
}

/* Ships what there is of a log. */
static int ship_pass(fleet *f, shipment *s, bool count)
{
    ms_error err;
    double every = SHIP_CHECK_S + 0.02 * (double)arrlenu(f->ships);
    if (s->halted && clock_seconds() - s->retried < SHIP_RETRY_S) return FINE;
    s->halted = s->complete = false;
    if (s->stale) {
        ship_close(s);
        s->reopened = true;
        s->stale = false;
    }
    int code = ship_open(f, s);
    if (code != FINE || !s->open) return code;
    ms_result result = ms_log_stat(s->log.store, &s->info, &err);
    if (result == MS_OK && s->info.replaced && access(s->path, F_OK) == 0) {
        ship_close(s); /* by a compaction, which has what was not shipped */
        code = ship_open(f, s);
        if (code != FINE || !s->open) return code;
    } else if (result != MS_OK) {
        code = halt(s, "reading the log", result, &err);
    }
    s->durable = s->info.durable_end >= s->info.end;
    if (code == FINE && !s->halted) code = find_position(s, every);
    if (code == FINE && !s->halted) code = ship_records(s, count);
    if (code == FINE && !s->halted) s->state = s->waiting > 0 ? "waits" : "shipped";
    return code;
}

/* Returns whether a signal came before all of the log was read. */
static bool is_interrupted(const shipment *s)
{
    return stopped && !s->complete && !s->halted;
}

static void ship_report(shipment *s, output *out)
{
    emit_format(out, "%s: %" PRIu64 " message%s, %" PRIu64 " change%s shipped", s->path,
                s->messages, plural(s->messages), s->changes, plural(s->changes));
    if (s->left_out > 0) {
        emit_format(out, ", %" PRIu64 " do not fit what is there", s->left_out);
    }
    if (s->retired > 0) emit_format(out, ", %" PRIu64 " retired", s->retired);
    if (s->waiting > 0) {
        emit_format(out, ", %" PRIu64 " record%s not durable yet: left for later",
                    s->waiting, plural(s->waiting));
    }
    if (s->damaged + s->tail > 0) {
        emit_format(out, ", %" PRIu64 " damaged", s->damaged + s->tail);
    }
    if (s->at.left_out > s->left_out + s->damaged) {
        emit_format(out, ", %" PRIu64 " left out before",
                    s->at.left_out - s->left_out - s->damaged);
    }
    if (is_interrupted(s)) emit_text(out, ", interrupted before its end");
    emit_text(out, s->halted ? ", stopped\n" : "\n");
}


/* ---- All logs ---------------------------------------------------------------------- */

/* Adds a log, unless it is known. */
static int fleet_add(fleet *f, const char *path, bool named)
{
    for (size_t i = 0; i < arrlenu(f->ships); i++) {
        if (strcmp(f->ships[i]->path, path) == 0) return FINE;
    }
    return ship_new(f, path, named) != NULL ? FINE : no_memory();
}

/* Looks for the logs that the arguments name, directly or by a folder. */
static int fleet_look(fleet *f)
{
    const options *o = f->job->options;
    int code = FINE;
    if (f->looked > 0 && clock_seconds() - f->looked < SHIP_LOOK_S) return FINE;
    for (size_t i = 0; i < o->n_files && code == FINE; i++) {
        uint64_t others = 0;
        const char *first = NULL;
        char **paths = is_folder(o->files[i]) ? paths_of(o->files[i], &others) : NULL;
        if (f->looked <= 0) complain_of_others(o->files[i], others);
        if (paths == NULL && !is_folder(o->files[i])) {
            code = fleet_add(f, o->files[i], true);
        }
        size_t n = 0, passed = 0;
        for (size_t k = 0; k < arrlenu(paths) && code == FINE; k++) {
            size_t len = strlen(paths[k]);
            bool half = len > 11 && strcmp(paths[k] + len - 11, ".compacting") == 0;
            bool log = !half && is_log(paths[k]);
            n += log;
            if (!half && !log && passed++ == 0) first = paths[k];
            if (log) code = fleet_add(f, paths[k], false);
        }
        if (f->looked <= 0 && passed > 0) {
            complain("%s: passed over %zu file%s which %s no log, the first is %s",
                     o->files[i], passed, plural(passed), passed == 1 ? "is" : "are",
                     first);
        }
        if (f->looked <= 0 && n == 0 && is_folder(o->files[i])) {
            complain("%s: there are no logs in it", o->files[i]);
        }
        paths_free(paths);
    }
    f->looked = clock_seconds();
    return code;
}

static void put_label(output *out, const char *name, const shipment *s)
{
    emit_format(out, "msgstore_ship_%s{log=\"", name);
    for (const char *p = s->path; *p != '\0'; p++) {
        if (*p == '\\' || *p == '"') emit_text(out, "\\");
        if (*p == '\n') emit_text(out, "\\n");
        else emit(out, p, 1);
    }
    emit_text(out, "\"} ");
}

static uint64_t metric_of(const shipment *s, int which)
{
    switch (which) {
    case 0: return s->messages;
    case 1: return s->changes;
    case 2: return s->at.left_out;
    case 3: return s->waiting;
    case 4: return s->halted;
    case 5: return s->at.retired;
    default: return s->at.message;
    }
}

/* Writes the file of --metrics, complete or not at all. */
static int fleet_metrics(fleet *f, bool last)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
        {"messages_total", "counter", "messages shipped by this process"},
        {"changes_total", "counter", "changes shipped by this process"},
        {"left_out", "gauge", "records that are damaged, or do not fit what is there"},
        {"waiting", "gauge", "records that are not durable, or not shipped"},
        {"stopped", "gauge", "1: the log is not shipped, stderr has why"},
        {"retired", "gauge", "records not stored, under a rule of msgstore retire"},
        {"position", "gauge", "number of the last message shipped"},
    };
    const char *path = f->job->options->metrics;
    char fresh[1100];
    if (path == NULL) return FINE;
    if (!last && clock_seconds() - f->written < SHIP_LOOK_S) return FINE;
    snprintf(fresh, sizeof fresh, "%.1000s.new", path);
    output out = {fopen(fresh, "w"), 0};
    f->written = clock_seconds();
    if (out.file == NULL) {
        complain("%s: %s", fresh, strerror(errno));
        return FAILED;
    }
    for (int m = 0; m < (int)(sizeof rows / sizeof rows[0]); m++) {
        emit_format(&out, "# HELP msgstore_ship_%s %s\n# TYPE msgstore_ship_%s %s\n",
                    rows[m].name, rows[m].help, rows[m].name, rows[m].type);
        for (size_t i = 0; i < arrlenu(f->ships); i++) {
            put_label(&out, rows[m].name, f->ships[i]);
            emit_format(&out, "%" PRIu64 "\n", metric_of(f->ships[i], m));
        }
    }
    emit_format(&out, "# HELP msgstore_ship_time_seconds when all logs were looked at\n"
                "# TYPE msgstore_ship_time_seconds gauge\nmsgstore_ship_time_seconds "
                "%lld\n", (long long)time(NULL));
    bool failed = fclose(out.file) != 0 || out.error != 0 || rename(fresh, path) != 0;
    if (failed) complain("%s: %s", path, strerror(errno));
    return failed ? FAILED : FINE;
}

/* Prints what --status does: where each log is. */
static int fleet_status(fleet *f, output *out)
{
    int code = FINE;
    for (size_t i = 0; i < arrlenu(f->ships) && code == FINE && !stopped; i++) {
        shipment *s = f->ships[i];
        code = ship_pass(f, s, true);
        if (code != FINE) break;
        emit_format(out, "%s: shipped up to message %" PRIu64 ", %" PRIu64 " record%s to "
                    "ship", s->path, s->at.message, s->waiting, plural(s->waiting));
        if (!s->durable) emit_text(out, ", the last ones not durable yet");
        emit_format(out, ", %" PRIu64 " left out, %" PRIu64 " retired%s\n",
                    s->at.left_out, s->at.retired, s->halted ? ", stopped" : "");
    }
    return code;
}

static int fleet_ship(fleet *f)
{
    const options *o = f->job->options;
    int code = FINE;
    for (bool again = true; again && code == FINE && !stopped;) {
        code = fleet_look(f);
        for (size_t i = 0; i < arrlenu(f->ships) && code == FINE && !stopped; i++) {
            code = ship_pass(f, f->ships[i], false);
        }
        again = GIVEN(o, FOLLOW);
        for (size_t i = 0; i < arrlenu(f->ships) && !again; i++) {
            const shipment *s = f->ships[i];
            again = s->open && !s->halted && s->checked == 0; /* the position moved */
        }
        int metrics = fleet_metrics(f, !again);
        if (code == FINE) code = metrics;
        if (again && GIVEN(o, FOLLOW) && code == FINE) usleep(SHIP_MS * 1000);
    }
    return code;
}

static int run_ship(job *j)
{
    output out = {stdout, 0};
    const options *o = j->options;
    fleet f = {0};
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = stop;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (o->url == NULL) {
        complain("--to names a server: postgresql://...");
        return USAGE;
    }
    f.job = j;
    int code = open_postgres(j, o->url, !o->status);
    if (code == FINE && o->status) code = fleet_look(&f);
    if (code == FINE) code = o->status ? fleet_status(&f, &out) : fleet_ship(&f);
    bool interrupted = stopped && f.looked <= 0;
    for (size_t i = 0; i < arrlenu(f.ships); i++) {
        shipment *s = f.ships[i];
        interrupted = interrupted || is_interrupted(s);
        if (!o->status) ship_report(s, &out);
        ship_close(s);
        if (code == FINE) code = s->code;
        arrfree(s->rows);
        ms_arena_deinit(&s->names);
        hmfree(s->clashes);
        free(s->path);
        free(s);
    }
    arrfree(f.ships);
    if (interrupted && !GIVEN(o, FOLLOW)) { /* with it the end is a signal */
        complain("interrupted before all was %s", o->status ? "read" : "shipped");
        if (code == FINE) code = FAILED;
    }
    return output_end(&out, code);
}

#else

static int run_ship(job *j)
{
    return open_postgres(j, "postgresql://", true);
}

#endif

static const option_row ship_rows_of_help[] = {
    {OPT_TO, "the server: postgresql://USER@HOST/DATABASE"},
    {OPT_FOLLOW, "go on with what comes, also with new logs, until interrupted"},
    {OPT_PREFIX, "put P before the names of locations on the server"},
    {OPT_METRICS, "write counters for Prometheus, every two seconds"},
    {OPT_STATUS, "ship nothing: where each log is, and what waits"},
    {OPT_END, NULL},
};

const command ship_command = {
    "ship", "copy logs into PostgreSQL, each record once",
    run_ship, false, 1, ANY_NUMBER, "a LOG", BIT(TO), ship_rows_of_help,
    "examples:\n"
    "  msgstore ship agent.log --to postgresql://agent@db.example/agents\n"
    "  msgstore ship /var/lib/agents --to postgresql:///agents --follow --prefix host1/\n"
    "\n"
    "usage: msgstore ship [OPTION...] LOG... --to URL\n"
    "Copies the messages of logs, or of all logs in a folder, into a store on\n"
    "PostgreSQL, with what has been changed: in order, and each record once, however\n"
    "often it is interrupted and begun again. Only what is durable in the log is\n"
    "shipped. A compacted log goes on where it was. A log whose numbers stand for other\n"
    "messages on the server (an older copy that was written to) stops, and is named, as\n"
    "is each record that does not fit; the others go on. Exit code 5 then. What falls\n"
    "under a rule of msgstore retire is not stored, and counted as retired. Damaged\n"
    "records are left out (exit code 3), and counted by later runs, too. A run that a\n"
    "signal ends before all is shipped has exit code 1, except with --follow. With\n"
    "--prefix, locations of one name on two hosts are two. The prefix of a log stays\n"
    "the same, else changes of what was shipped do not find it, and are left out.\n",
    false,
};
