/* msgstore fetch: copies a location of a store on PostgreSQL into a log. */

#define _GNU_SOURCE
#include "commands.h"
#include "postgres.h"

#include <inttypes.h>

enum { FETCH_MESSAGES = 1000 };

typedef struct fetching {
    job *job;
    ms_store *log;
    ms_str location;          /* on the server */
    ms_str name;              /* in the log: without the prefix */
    ms_arena arena;           /* of a batch */
    ms_envelope *rows;        /* an stb_ds array */
    uint64_t messages, notes;
} fetching;

static int fetch_rows(fetching *f)
{
    ms_error err;
    ms_append_opts opts = {0};
    opts.keep_seq = true;
    ms_result result = ms_append_batch(f->log, f->rows, arrlenu(f->rows), &opts, &err);
    if (result != MS_OK) return complain_of("writing the log", result, &err);
    f->messages += arrlenu(f->rows);
    arrsetlen(f->rows, 0);
    ms_arena_reset(&f->arena);
    return FINE;
}

static int fetch_messages(fetching *f)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    int code = FINE;
    q.location = f->location;
    q.arena = &f->job->arena;
    ms_result result = ms_query_open(f->job->store, &q, &it, &err);
    if (result != MS_OK) return complain_of("reading the store", result, &err);
    while (code == FINE && (msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg), copy;
        if (ms_envelope_copy(&m, &f->arena, &copy) != MS_OK) code = no_memory();
        copy.location = f->name;
        if (code == FINE) arrput(f->rows, copy);
        if (code == FINE && arrlenu(f->rows) >= FETCH_MESSAGES) code = fetch_rows(f);
        ms_arena_reset(&f->job->arena);
    }
    result = ms_cursor_close(&it, &err);
    if (code == FINE && result != MS_OK) return complain_of("reading", result, &err);
    return code == FINE ? fetch_rows(f) : code;
}

/* Copies the notes and the facts of the location. */
static int fetch_rest(fetching *f)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *note;
    ms_str facts;
    ms_query q = {0};
    q.location = f->location;
    q.raw = MS_RAW_NOTES;
    ms_result result = ms_query_open(f->job->store, &q, &it, &err);
    while (result == MS_OK && (note = ms_next(&it)) != NULL) {
        ms_str kind = ms_get(note, MS_F_TYPE_NAME).text;
        result = ms_note(f->log, ms_seq(note), kind, ms_content(note), &err);
        f->notes += result == MS_OK;
        if (result == MS_E_NOT_FOUND || result == MS_E_HIDDEN) result = MS_OK;
    }
    ms_result read = ms_cursor_close(&it, result == MS_OK ? &err : NULL);
    if (result == MS_OK) result = read;
    if (result == MS_OK)
        result = ms_location_get(f->job->store, f->location, &f->arena, &facts, &err);
    if (result == MS_OK && !ms_str_equal(facts, MS_STR("{}")))
        result = ms_location_set(f->log, f->name, facts, &err);
    if (result == MS_OK) result = ms_sync(f->log, NULL, &err);
    return result == MS_OK ? FINE : complain_of("fetching notes", result, &err);
}

/* Takes the prefix from the location's name. */
static int take_prefix(fetching *f, const char *prefix)
{
    ms_str begin = ms_str_of(prefix != NULL ? prefix : "");
    if (!text_begins(f->location, begin)) {
        complain("%.*s does not begin with %.200s", f->location.len < 200 ?
                 (int)f->location.len : 200, f->location.ptr, prefix);
        return USAGE;
    }
    f->name = ms_str_n(f->location.ptr + begin.len, f->location.len - begin.len);
    return FINE;
}

/* Refuses a log that has messages: those of the server would stand among them. */
static int check_new(const job *log, const char *path)
{
    ms_error err;
    ms_stat stat;
    ms_result result = ms_store_stat(log->store, &stat, &err);
    if (result != MS_OK) return complain_of(path, result, &err);
    if (stat.last_seq == 0) return FINE;
    complain("%s: has messages; fetch writes a new log", path);
    return CONFLICT;
}

static int run_fetch(job *j)
{
    output out = {stdout, 0};
    fetching f = {0};
    job log = {0};
    ms_log_desc desc = {0};
    const options *o = j->options;
    if (!is_postgres(o->files[0])) {
        complain("%s is not the URL of a server", o->files[0]);
        return USAGE;
    }
    f.job = j;
    int code = open_postgres(j, o->files[0], false);
    if (code == FINE) code = choose_location(j, o->location, true, &f.location);
    desc.keep_unset_times = true;
    set_writing(o, &desc);
    log.options = o;
    bool copied = code != FINE || copy_text(&log.arena, f.location, &f.location);
    if (!copied) code = no_memory();
    if (code == FINE) code = take_prefix(&f, o->prefix);
    if (code == FINE) code = open_log(&log, o->output, &desc);
    f.log = log.store;
    if (code == FINE) code = check_new(&log, o->output);
    if (code == FINE) code = fetch_messages(&f);
    if (code == FINE) code = fetch_rest(&f);
    if (code == FINE) {
        emit_format(&out, "%" PRIu64 " message%s, %" PRIu64 " note%s fetched\n",
                    f.messages, plural(f.messages), f.notes, plural(f.notes));
    }
    arrfree(f.rows);
    ms_arena_deinit(&f.arena);
    int closed = close_job(&log);
    return output_end(&out, code != FINE ? code : closed);
}

static const option_row fetch_options[] = {
    {OPT_LOCATION, "this location"},
    {OPT_PREFIX, "the location begins with P, which its name in the log does not have"},
    {OPT_OUTPUT, "the log to write"},
    {OPT_WAIT, "how long to wait for another writer"},
    {OPT_END, NULL},
};

const command fetch_command = {
    "fetch", "a location of a store on PostgreSQL, as a log",
    run_fetch, false, 1, 1, "a URL", BIT(OUTPUT), fetch_options,
    "examples:\n"
    "  msgstore fetch postgresql://db.example/agents --location job_123 -o job.log\n"
    "\n"
    "usage: msgstore fetch [OPTION...] URL -o LOG\n"
    "Writes the messages of a location as they are now, with their numbers, times and\n"
    "keys, their notes and the location's facts into a new log. One that has messages,\n"
    "as after an interrupted run, is refused: exit code 5.\n",
    false,
};
