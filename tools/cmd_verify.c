/* msgstore verify, msgstore repair, msgstore compact: commands for complete logs. */

#define _GNU_SOURCE
#include "commands.h"
#include "costs.h"
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>


/* ---- msgstore verify, msgstore repair, msgstore compact ---------------------------- */

static void print_event(void *ctx, const ms_log_event *event)
{
    char text[EVENT_TEXT];
    emit_format(ctx, "%s\n", event_text(event, text));
}

static uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int run_verify(job *j)
{
    output out = {stdout, 0};
    ms_error err;
    ms_log_report r = {0};
    ms_log_desc desc = {0};
    desc.path = j->options->files[0];
    desc.events.event = print_event;
    desc.events.ctx = &out;
    ms_result result = ms_log_verify(&desc, &r, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) {
        return complain_of(NULL, result, &err);
    }
    emit_format(&out, "bytes      %" PRIu64 " looked at, in use up to %" PRIu64 "\n",
                r.bytes, r.end);
    emit_format(&out, "messages   %" PRIu64 " whole, the last is number %" PRIu64 "\n",
                r.messages, r.last_seq);
    if (r.clustered > 0) {
        emit_format(&out, "clustered  %" PRIu64 " of them, by location and view\n",
                    r.clustered);
    }
    emit_format(&out, "others     %" PRIu64 " index records, %" PRIu64
                " more\n", r.index_records, r.other_records);
    emit_format(&out, "torn       %" PRIu64 " byte%s after the last whole append\n",
                r.torn_bytes, plural(r.torn_bytes));
    emit_format(&out, "unreadable %" PRIu64 " range%s, %" PRIu64 " byte%s; %" PRIu64
                " index record%s\n", r.damaged, plural(r.damaged), r.damaged_bytes,
                plural(r.damaged_bytes), r.index_damaged, plural(r.index_damaged));
    if (result != MS_OK || r.end > 0) {
        emit_format(&out, "verdict    %s\n", result == MS_OK ? "whole" : err.message);
    } else if (file_size(desc.path) == 0) {
        emit_format(&out, "verdict    no log: the file is empty\n");
    } else {
        emit_format(&out, "verdict    no log: %" PRIu64 " bytes of a creation that "
                    "did not end, or of a log that was cut\n", file_size(desc.path));
        return output_end(&out, DAMAGED); /* in doubt */
    }
    return output_end(&out, exit_code(result));
}

/* Prints the counts of a copy, or of a dry run: "copied ... dropped ...". */
static void print_copy(output *out, const ms_copy_report *r)
{
    emit_format(out, "copied     %" PRIu64 " message%s, %" PRIu64 " bytes of records\n",
                r->copied, plural(r->copied), r->bytes);
    emit_format(out, "dropped    %" PRIu64 " message%s\n", r->dropped,
                plural(r->dropped));
    emit_format(out, "lost       %" PRIu64 " unreadable record%s\n", r->damaged,
                plural(r->damaged));
    if (r->notes > 0) emit_format(out, "notes      %" PRIu64 "\n", r->notes);
}

/* What answers cost that the log has, and a copy has not. */
typedef struct lost_usage {
    cost_row hidden;          /* their messages are hidden */
    cost_row visible;         /* their messages are not chosen */
} lost_usage;

/* Returns the number of the first of the newest n messages of a location; 0: of all. */
static uint64_t first_kept(job *j, const ms_keep *keep, ms_str location, tally *firsts)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    if (keep->newest == 0 || location.len == 0) return 0;
    tally_row *row = tally_row_of(firsts, location);
    if (row == NULL) exit(no_memory());
    if (row->count > 0) return row->bytes;
    row->count = 1;
    q.location = location;
    q.limit = keep->newest;
    if (ms_query_open(j->store, &q, &it, NULL) != MS_OK) return 0;
    if ((msg = ms_next(&it)) != NULL) row->bytes = ms_seq(msg);
    ms_cursor_close(&it, NULL);
    return row->bytes;
}

/* Returns whether a message is chosen, as ms_keep describes it. firsts: the first
 * numbers of locations, as far as they are known (tally_row.bytes). */
static bool is_kept(job *j, const ms_keep *keep, const ms_msg *msg, tally *firsts)
{
    int64_t ns;
    ms_str location = location_of(msg);
    bool named = keep->n_locations == 0;
    for (size_t i = 0; i < keep->n_locations && !named; i++) {
        named = ms_str_equal(keep->locations[i], location);
    }
    if (!named) return false;
    if (keep->has_since && ms_time(msg, &ns) && ns < keep->since_ns) return false;
    return ms_seq(msg) >= first_kept(j, keep, location, firsts);
}

/* Counts the answers whose messages are hidden or not chosen. DAMAGED: some could not be
 * read. */
static int count_lost_usage(job *j, const ms_keep *keep, lost_usage *lost)
{
    cost_row *rows = NULL;
    const ms_msg *msg;
    ms_arena arena = {0}, one = {0};
    tally firsts = {0};
    memset(lost, 0, sizeof *lost);
    int code = costs_of_each(j->store, &arena, &rows);
    for (size_t i = 0; i < arrlenu(rows); i++) {
        ms_arena_reset(&one);
        ms_result found = ms_get_by_seq(j->store, rows[i].seq, &one, &msg, NULL);
        if (found == MS_E_NOT_FOUND) costs_add(&lost->hidden, &rows[i]);
        else if (msg != NULL && !is_kept(j, keep, msg, &firsts))
            costs_add(&lost->visible, &rows[i]);
    }
    arrfree(rows);
    tally_free(&firsts);
    ms_arena_deinit(&one);
    ms_arena_deinit(&arena);
    return code;
}

static void print_lost_usage(output *out, const char *kind, const cost_row *sum)
{
    if (sum->answers == 0) return;
    emit_format(out, "usage      %" PRIu64 " answer%s of %s messages, %" PRIu64
                " tokens, that the copy does not count\n", sum->answers,
                plural(sum->answers), kind, sum->input + sum->output);
}

/* Writes the kept messages of the open log to the file `path` (NULL: a dry run), and
 * reports. lost: the usage that the copy lacks; NULL: it was not counted. */
static int rewrite_into(job *j, const char *path, const ms_keep *keep,
                        const lost_usage *lost)
{
    output out = {stdout, 0};
    ms_error err;
    ms_copy_report report = {0};
    ms_log_info info;
    ms_log_desc to = {0};
    const options *o = j->options;
    uint64_t before = file_size(o->files[0]);
    to.path = path;
    to.lock_wait_ms = o->wait_ms;
    ms_result result = ms_log_rewrite(j->store, path != NULL ? &to : NULL,
                                      GIVEN(o, REPLACE), keep, &report, &err);
    if (result != MS_OK && result != MS_E_DAMAGED) {
        return complain_of(NULL, result, &err);
    }
    int code = exit_code(result);
    print_copy(&out, &report);
    if (lost != NULL) print_lost_usage(&out, "hidden", &lost->hidden);
    if (lost != NULL) print_lost_usage(&out, "visible", &lost->visible);
    if (ms_log_stat(j->store, &info, NULL) == MS_OK && info.lost_end != 0) {
        emit_format(&out, "cut        %s was durable up to byte %" PRIu64 " once\n",
                    "the log", info.lost_end);
        code = DAMAGED;
    }
    print_events(&out, j);
    if (keep->dry_run) {
        emit_format(&out, "file       %" PRIu64 " bytes; a dry run writes nothing\n",
                    before);
    } else {
        emit_format(&out, "file       %" PRIu64 " bytes before, %" PRIu64 " after\n",
                    before, file_size(path));
    }
    return output_end(&out, code);
}

/* Rewrites a log to the second argument. */
static int rewrite(job *j, const ms_keep *keep, const lost_usage *lost)
{
    const options *o = j->options;
    return rewrite_into(j, o->n_files > 1 ? o->files[1] : NULL, keep, lost);
}

static int run_repair(job *j)
{
    ms_keep all = {0};
    ms_log_desc desc = {0};
    desc.mode = MS_LOG_READ;
    desc.opening = MS_OPEN_SALVAGE;
    int code = open_log(j, j->options->files[0], &desc);
    return code == FINE ? rewrite(j, &all, NULL) : code;
}

/* Checks that each location has messages: a part of a name, as export takes it, would
 * keep nothing. */
static int check_locations(job *j)
{
    ms_listing list;
    ms_str all = {NULL, 0};
    const options *o = j->options;
    int code = FINE;
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        code = look_up(j, false, all, o->locations[i], &list);
    }
    return code;
}

static int run_compact(job *j)
{
    ms_keep keep = {0};
    ms_log_desc desc = {0};
    const options *o = j->options;
    keep.newest = o->keep_last;
    keep.has_since = GIVEN(o, SINCE);
    keep.since_ns = o->since_ns;
    keep.locations = o->locations;
    keep.n_locations = o->n_locations;
    keep.dry_run = GIVEN(o, DRY_RUN);
    if (o->n_files < 2 && !keep.dry_run) {
        complain("compact needs a second file, OUT, or --dry-run");
        return USAGE;
    }
    bool in_place = !keep.dry_run && GIVEN(o, REPLACE) &&
                    same_file(o->files[0], o->files[1]);
    desc.mode = in_place ? MS_LOG_WRITE : MS_LOG_READ; /* keeps other writers out */
    desc.lock_wait_ms = o->wait_ms;
    int code = open_log(j, o->files[0], &desc);
    if (code == FINE) code = check_locations(j);
    lost_usage lost;
    int counted = code == FINE ? count_lost_usage(j, &keep, &lost) : code;
    if (code != FINE || !is_read(counted)) return counted;
    return rewrite(j, &keep, &lost); /* which reports damage */
}

static const option_row verify_rows[] = {
    {OPT_END, NULL},
};

const command verify_command = {
    "verify", "check every byte of a log",
    run_verify, false, 1, 1, "a STORE", 0, verify_rows,
    "examples:\n"
    "  msgstore verify trace.log\n"
    "\n"
    "usage: msgstore verify [STORE]\n"
    "Reads every byte of a log and prints what is damaged, a range a line. It changes\n"
    "nothing. Without a STORE it is the usual log of sync. Exit code 0: whole, 3:\n"
    "damaged.\n",
    false,
};

static const option_row repair_rows[] = {
    {OPT_REPLACE, "OUT may be there, and is replaced at once; it may be IN"},
    {OPT_WAIT, "how long to wait for another writer of OUT"},
    {OPT_END, NULL},
};

const command repair_command = {
    "repair", "copy the valid messages of a damaged log to a new one",
    run_repair, false, 2, 2, "IN and OUT", 0, repair_rows,
    "examples:\n"
    "  msgstore repair trace.log whole.log\n"
    "\n"
    "usage: msgstore repair [OPTION...] IN OUT\n"
    "Reads whatever is whole in the log IN and writes it to the new log OUT, with its\n"
    "numbers. Exit code 0: nothing was lost; 3: something was, OUT has all the rest.\n",
    false,
};

static const option_row compact_rows[] = {
    {OPT_KEEP_LAST, "the newest N of each location"},
    {OPT_SINCE, "only from T on: seconds since 1970, 2026-03-02, or "
                "2026-03-02T09:30:00Z (UTC); messages without a time stay"},
    {OPT_LOCATION, "only this location; may be given several times"},
    {OPT_DRY_RUN, "only print what would be copied; OUT may be left out"},
    {OPT_REPLACE, "OUT may be there, and is replaced at once; it may be IN"},
    {OPT_WAIT, "how long to wait for another writer"},
    {OPT_END, NULL},
};

const command compact_command = {
    "compact", "copy the messages to keep to a new log",
    run_compact, false, 1, 2, "IN and OUT", 0, compact_rows,
    "examples:\n"
    "  msgstore compact trace.log --keep-last 1000 --dry-run\n"
    "  msgstore compact trace.log trace.log --keep-last 1000 --replace\n"
    "\n"
    "usage: msgstore compact [OPTION...] IN [OUT]\n"
    "Copies a log, or what is to be kept of it, into the new log OUT. Messages keep\n"
    "their numbers. Without a choice all are kept, as they are now: what was hidden,\n"
    "and the earlier texts of amended messages are left out. With a message its\n"
    "usage is left out: lines count the answers and tokens of hidden messages, and of\n"
    "visible ones that are dropped. --keep-last counts visible messages alone.\n"
    "The messages of one view stand together in OUT: a new process reads a conversation\n"
    "in a tenth of the time. To read everything in order takes longer than before.\n",
    false,
};
