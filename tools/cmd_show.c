/* msgstore show: one message as text, with those around it. */

#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
        print_whole(j->options, joined_store(j), msg, false, out);
    }
    if (result == MS_OK) result = ms_cursor_close(&it, &err);
    ms_arena_deinit(&arena);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

/* Parses NUMBER, or STORE:NUMBER as view and search print it for several of them. */
static bool parse_place(const char *text, size_t stores, uint64_t *seq)
{
    char first[32];
    uint64_t store = 1;
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    if (colon == NULL && stores > 1) return false;
    if (len >= sizeof first || !parse_number(colon != NULL ? colon + 1 : text, seq)) {
        return false;
    }
    memcpy(first, text, len);
    first[len] = '\0';
    if (colon != NULL && !parse_number(first, &store)) return false;
    if (*seq == 0 || store == 0 || store > stores) return false;
    if (stores > 1) *seq += (store - 1) * ((uint64_t)1 << 40);
    return true;
}

static int run_show(job *j)
{
    ms_error err;
    uint64_t seq;
    output out = {stdout, 0};
    const ms_msg *msg = NULL;
    const options *o = j->options;
    size_t stores = o->n_files - 1;
    const char *number = o->files[stores];
    if (!parse_place(number, stores, &seq)) {
        complain(stores > 1 ? "show expects STORE:NUMBER of %zu stores, as 2:17, not %s"
                            : "show expects the number of a message in %zu store, not %s",
                 stores, number);
        return USAGE;
    }
    int opened = open_stores(j, stores);
    if (opened != FINE) return opened;
    ms_result result = ms_get_by_seq(j->store, seq, &j->arena, &msg, &err);
    if (msg == NULL) return complain_of(number, result, &err);
    int code = show_beside(j, msg, true, &out);
    print_whole(o, joined_store(j), msg, o->context > 0, &out);
    int after = show_beside(j, msg, false, &out);
    if (code == FINE) code = after;
    if (code == FINE && result == MS_E_DAMAGED) { /* a change of it may be lost */
        code = complain_of(number, result, &err);
    }
    return output_end(&out, code);
}

static const option_row show_rows[] = {
    {OPT_CONTEXT, "also the N messages before and after it, of its location"},
    PLAIN_ROW,
    ZONE_ROW,
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command show_command = {
    "show", "one message as text, with those around it",
    run_show, false, 2, ANY_NUMBER,
    "a NUMBER (and a STORE; without one it is the usual log of sync)", 0, show_rows,
    "examples:\n"
    "  msgstore show my.log 92 -C 3\n"
    "  msgstore show 92\n"
    "\n"
    "usage: msgstore show [OPTION...] [STORE...] NUMBER\n"
    "Prints a message, whose NUMBER search and view print first: number, time, session,\n"
    "agent and type on a line, then all of its text, on as many lines as it has. With\n"
    "-C a > stands before its line. Of several STOREs it is as these print it, 2:17.\n"
    "Without a STORE it is the usual log of sync. On a terminal the Markdown of what\n"
    "people and models wrote is shown as headings, lists and tables; results of tools\n"
    "stay as they are.\n",
    false,
};
