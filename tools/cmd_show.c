/* msgstore show: one message as text, with those around it. */

#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>

/* Prints the messages of the location before or after one. */
static int show_beside(job *j, const ms_msg *found, bool before, output *out)
{
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    ms_query q = {0};
    ms_arena arena = {0};
    if (j->options->context == 0) return FINE;
    q.location = location_of(found);
    q.limit = j->options->context;
    if (before) q.before_seq = ms_seq(found);
    else q.after_seq = ms_seq(found);
    q.oldest = !before;
    q.arena = &arena;
    ms_result result = ms_query_open(j->store, &q, &it, &err);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        print_whole(msg, false, out);
    }
    if (result == MS_OK) result = ms_cursor_close(&it, &err);
    ms_arena_deinit(&arena);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

static int run_show(job *j)
{
    ms_error err;
    uint64_t seq;
    output out = {stdout, 0};
    const ms_msg *msg = NULL;
    const options *o = j->options;
    if (!parse_number(o->files[1], &seq) || seq == 0) {
        complain("show expects the number of a message, not %s", o->files[1]);
        return USAGE;
    }
    ms_result result = ms_get_by_seq(j->store, seq, &j->arena, &msg, &err);
    if (msg == NULL) return complain_of(o->files[1], result, &err);
    int code = show_beside(j, msg, true, &out);
    print_whole(msg, o->context > 0, &out);
    int after = show_beside(j, msg, false, &out);
    if (code == FINE) code = after;
    if (code == FINE && result == MS_E_DAMAGED) { /* a change of it may be lost */
        code = complain_of(o->files[1], result, &err);
    }
    return output_end(&out, code);
}

static const option_row show_rows[] = {
    {OPT_CONTEXT, "also the N messages before and after it, of its location"},
    ZONE_ROW,
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command show_command = {
    "show", "one message as text, with those around it",
    run_show, true, 2, 2, "a STORE and a NUMBER", 0, show_rows,
    "examples:\n"
    "  msgstore show my.log 92 -C 3\n"
    "  msgstore show 92\n"
    "\n"
    "usage: msgstore show [OPTION...] [STORE] NUMBER\n"
    "Prints a message, whose NUMBER search and view print first: number, time, session,\n"
    "agent and type on a line, then all of its text, on as many lines as it has. With\n"
    "-C a > stands before its line. Without a STORE it is the usual log of sync.\n",
    false,
};
