/* msgstore ship: copies logs into PostgreSQL, each record once. */

#define _GNU_SOURCE
#include "commands.h"
#include "postgres.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#ifdef WITH_POSTGRES
#include "../backends/msgstore_postgres.h"

enum { SHIP_MESSAGES = 1000, SHIP_BYTES = 4 << 20, SHIP_MS = 200 };

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* The number of a message whose key the server has with other content. */
typedef struct clash {
    uint64_t key;
    bool value;
} clash;

/* A log that is being shipped. */
typedef struct shipment {
    const char *path;
    job log;
    ms_store *to;
    ms_log_info info;         /* its id names the source */
    ms_pg_position at;        /* all records up to here are shipped, */
    ms_pg_position noted;     /* and up to here the server has the position */
    ms_envelope *rows;        /* the next rows: an stb_ds array */
    size_t bytes;             /* of the rows */
    clash *clashes;           /* messages that were left out: an stb_ds map */
    uint64_t messages, changes, left_out;
} shipment;

static ms_str source_of(const shipment *s)
{
    return ms_str_n((const char *)s->info.id, sizeof s->info.id);
}

static int note_position(shipment *s)
{
    ms_error err;
    if (memcmp(&s->at, &s->noted, sizeof s->at) == 0) return FINE;
    ms_result result = ms_pg_ship_end(s->to, source_of(s), s->at, &err);
    if (result != MS_OK) return complain_of("noting the position", result, &err);
    s->noted = s->at;
    return FINE;
}

/* Ships messages. If the server has the key of one with other content, they are shipped
 * singly, and that one is left out. */
static ms_result ship_some(shipment *s, const ms_envelope *rows, size_t n, ms_error *err)
{
    ms_result result = ms_pg_ship(s->to, source_of(s), rows, n, err);
    if (result != MS_E_KEY_REUSED) return result;
    if (n == 1) {
        hmput(s->clashes, rows->seq, true);
        s->left_out++;
        s->messages--;
        return MS_OK;
    }
    result = MS_OK;
    for (size_t i = 0; i < n && result == MS_OK; i++) {
        result = ship_some(s, &rows[i], 1, err);
    }
    return result;
}

/* Ships the collected messages, then notes the position. */
static int ship_rows(shipment *s)
{
    ms_error err;
    size_t n = arrlenu(s->rows);
    if (n == 0) return FINE;
    ms_result result = ship_some(s, s->rows, n, &err);
    if (result != MS_OK) return complain_of("shipping", result, &err);
    s->at.message = s->rows[n - 1].seq;
    s->at.changes = 0;
    s->messages += n;
    s->bytes = 0;
    arrsetlen(s->rows, 0);
    return note_position(s);
}

static int ship_message(shipment *s, const ms_msg *msg)
{
    arrput(s->rows, ms_envelope_of(msg));
    s->bytes += ms_size(msg);
    bool full = arrlenu(s->rows) >= SHIP_MESSAGES || s->bytes >= SHIP_BYTES;
    return full ? ship_rows(s) : FINE;
}

/* Returns whether the key of a message is one of another message on the server, which a
 * change must not reach. An earlier run may have left the message out: shipping it again
 * stores nothing, and fails for the same reason. Changes of a message that is erased are
 * shipped without this test: no content is left to compare. */
static bool ship_clashes(shipment *s, const ms_msg *change, const ms_msg *msg)
{
    const ms_msg *shown;
    ms_envelope row = ms_envelope_of(msg);
    if (hmgeti(s->clashes, row.seq) >= 0) return true;
    if (row.key.ptr == NULL || (ms_flags(change) & MS_FLAG_REDACTED) != 0 ||
        (get_shown(s->log.store, row.seq, NULL, &shown, NULL) == MS_OK &&
         (ms_flags(shown) & MS_FLAG_REDACTED) != 0)) {
        return false;
    }
    return ms_pg_ship(s->to, source_of(s), &row, 1, NULL) == MS_E_KEY_REUSED;
}

/* Visits the messages of a location from first to last, as they were appended. */
static int ship_about(shipment *s, const ms_msg *change, uint64_t first, uint64_t last)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    int code = FINE;
    q.location = ms_get(change, MS_F_LOCATION).text;
    q.raw = MS_RAW_MESSAGES;
    q.after_seq = first - 1;
    q.before_seq = last + 1;
    ms_result result = ms_query_open(s->log.store, &q, &it, &err);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        result = ship_clashes(s, change, msg)
                     ? MS_E_CONFLICT
                     : ms_pg_ship_change(s->to, source_of(s), change, msg, s->at, &err);
        if (result == MS_E_HIDDEN || result == MS_E_NOT_FOUND || result == MS_E_CLOSED ||
            result == MS_E_CONFLICT) { /* another client has changed it on the server */
            s->left_out++;
            result = MS_OK;
        }
    }
    if (result != MS_OK) code = complain_of("shipping a change", result, &err);
    ms_cursor_close(&it, NULL);
    return code;
}

static int ship_change(shipment *s, const ms_msg *change)
{
    ms_error err;
    ms_str value;
    uint64_t first = ms_seq(change), last = first;
    int code = ship_rows(s);
    if (code != FINE) return code;
    if (ms_kind_of(change) == MS_KIND_HIDE &&
        ms_json_member(ms_content(change).text, MS_STR("last"), &value)) {
        ms_json_u64(value, &last);
    }
    if (ms_kind_of(change) == MS_KIND_LOCATION) {
        ms_result result = ms_pg_ship_change(s->to, source_of(s), change, NULL, s->at,
                                             &err);
        if (result != MS_OK) return complain_of("shipping facts", result, &err);
    } else {
        code = ship_about(s, change, first, last);
    }
    if (code != FINE) return code;
    s->changes++;
    s->at.changes++;
    return s->at.changes % 100 == 0 ? note_position(s) : FINE;
}

/* Ships the records after the position. */
static int ship_pass(shipment *s)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    uint64_t skip = s->at.changes;
    int code = FINE;
    q.raw = MS_RAW_ALL;
    q.after_seq = s->at.message;
    ms_result result = ms_query_open(s->log.store, &q, &it, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    while (code == FINE && !stopped && (msg = ms_next(&it)) != NULL) {
        if (ms_kind_of(msg) == MS_KIND_MESSAGE) {
            skip = 0;
            code = ship_message(s, msg);
        } else if (skip > 0) {
            skip--;
        } else {
            code = ship_change(s, msg);
        }
    }
    if (code == FINE) code = ship_rows(s);
    result = ms_cursor_close(&it, &err);
    if (code == FINE && result != MS_OK) {
        code = complain_of("reading the log", result, &err);
    }
    return code == FINE ? note_position(s) : code;
}

static int ship_begin(shipment *s, const options *o, const char *path, ms_store *to)
{
    ms_error err;
    ms_log_desc desc = {0};
    s->path = path;
    s->to = to;
    s->log.options = o;
    desc.mode = MS_LOG_READ;
    int code = open_log(&s->log, path, &desc);
    if (code != FINE) return code;
    ms_result result = ms_log_stat(s->log.store, &s->info, &err);
    if (result == MS_OK) result = ms_pg_ship_begin(to, source_of(s), &s->at, &err);
    s->noted = s->at;
    return result == MS_OK ? FINE : complain_of(path, result, &err);
}

static int ship_report(shipment *s, output *out)
{
    emit_format(out, "%s: %" PRIu64 " message%s, %" PRIu64 " change%s shipped", s->path,
                s->messages, plural(s->messages), s->changes, plural(s->changes));
    if (s->left_out > 0) {
        emit_format(out, ", %" PRIu64 " do not fit what is there", s->left_out);
    }
    emit_text(out, "\n");
    arrfree(s->rows);
    hmfree(s->clashes);
    return close_job(&s->log);
}

/* Returns the logs that the arguments name, directly or by a folder, in an stb_ds
 * array. */
static char **ship_paths(const options *o)
{
    char **logs = NULL;
    for (size_t i = 0; i < o->n_files; i++) {
        char **paths = is_folder(o->files[i]) ? paths_of(o->files[i], NULL) : NULL;
        if (paths == NULL) arrput(logs, copy_chars(o->files[i], strlen(o->files[i])));
        for (size_t k = 0; k < arrlenu(paths); k++) {
            if (is_log(paths[k])) arrput(logs, copy_chars(paths[k], strlen(paths[k])));
        }
        paths_free(paths);
    }
    return logs;
}

static int ship_all(job *j, shipment *s, size_t n)
{
    const options *o = j->options;
    int code = FINE;
    for (bool again = true; again && code == FINE && !stopped;) {
        for (size_t i = 0; i < n && code == FINE; i++) code = ship_pass(&s[i]);
        again = GIVEN(o, FOLLOW);
        if (again && n == 1 && code == FINE) {
            ms_wait(s->log.store, s->at.message, SHIP_MS, NULL, NULL);
        } else if (again) {
            usleep(SHIP_MS * 1000);
        }
    }
    return code;
}

static int run_ship(job *j)
{
    output out = {stdout, 0};
    const options *o = j->options;
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = stop;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (o->url == NULL) {
        complain("--to names a server: postgresql://...");
        return USAGE;
    }
    char **logs = ship_paths(o);
    size_t n = arrlenu(logs), begun = 0;
    shipment *s = calloc(n + 1, sizeof *s);
    int code = s != NULL ? open_postgres(j, o->url, true) : no_memory();
    while (code == FINE && begun < n) {
        code = ship_begin(&s[begun], o, logs[begun], j->store);
        begun++;
    }
    if (code == FINE) code = ship_all(j, s, n);
    for (size_t i = 0; i < begun; i++) {
        int closed = ship_report(&s[i], &out);
        if (code == FINE) code = closed;
    }
    free(s);
    paths_free(logs);
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
    {OPT_FOLLOW, "go on with what comes, until interrupted"},
    {OPT_END, NULL},
};

const command ship_command = {
    "ship", "copy logs into PostgreSQL, each record once",
    run_ship, false, 1, ANY_NUMBER, "a LOG", BIT(TO), ship_rows_of_help,
    "examples:\n"
    "  msgstore ship agent.log --to postgresql://agent@db.example/agents\n"
    "  msgstore ship /var/lib/agents --to postgresql:///agents --follow\n"
    "\n"
    "usage: msgstore ship [OPTION...] LOG... --to URL\n"
    "Copies the messages of logs, or of all logs in a folder, into a store on\n"
    "PostgreSQL, with what has been changed: in order, and each record once, however\n"
    "often it is interrupted and begun again. A log is known by its id; what compact\n"
    "writes is another log.\n",
    false,
};
