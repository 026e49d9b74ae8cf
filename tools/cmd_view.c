/* msgstore view: prints the messages of a store. */

#define _GNU_SOURCE
#include "commands.h"

static int run_view(job *j)
{
    const options *o = j->options;
    ms_query q = query_of(o, &j->arena);
    listing l = {NULL, &q, NULL, &j->arena, NULL};
    const char *name = o->session != NULL ? o->session : o->location;
    bool several = o->n_files > 1 || (o->limit > 0 && name == NULL);
    q.by_time = several && !GIVEN(o, BY_STORE) && !GIVEN(o, RAW);
    int code = check_raw("view", o);
    if (code == FINE) code = open_stores(j, o->n_files);
    l.store = j->store;
    l.joined = joined_store(j);
    if (code == FINE) code = choose_location(j, name, false, &q.location);
    if (code != FINE) return code;
    if (GIVEN(o, RAW)) q.raw = MS_RAW_ALL;
    complain_of_undated(j, &q);
    if (!GIVEN(o, RAW)) return print_listing(o, &l);
    q.arena = NULL;
    return print_raw(o, &l);
}

static const option_row view_rows[] = {
    {OPT_CONVERSATION, "messages of user and assistant"},
    {OPT_AGENT, "what agent A did: task, action, observation, error, final, "
                "delegation; A is also the agent of those that have none"},
    VIEW_ROWS,
    {OPT_LOCATION, "only this location, and that of messages that have none"},
    WHEN_ROWS,
    {OPT_LIMIT, "the newest N by time, of a session as stored; with --oldest the "
                "oldest N"},
    {OPT_RAW, "every record as it stands, with its kind: messages, hidden ones too, "
              "what amends and hides them, notes, facts of locations, parts of "
              "streams; --turn and times then choose among messages only"},
    {OPT_FULL, "each message with all of its text, as show prints it"},
    PLAIN_ROW,
    ZONE_ROW,
    {OPT_JSON, "an object a line, members by their names in msgstore.h"},
    {OPT_BY_STORE, "as they stand in each STORE, not in order of time"},
    PRINT_ROWS,
    INPUT_ROWS,
    {OPT_OLDEST, NULL},
    {OPT_END, NULL},
};

const command view_command = {
    "view", "messages of a store: of an agent, a team, a turn, a time",
    run_view, false, 1, ANY_NUMBER, "a STORE", 0, view_rows,
    "examples:\n"
    "  msgstore view my.log 5560 -n 20\n"
    "  msgstore view ~/.codex/sessions --since yesterday\n"
    "  msgstore view trace.log --location job_42 --agent worker --since 2026-03-02\n"
    "  msgstore view trace.jsonl --team worker,writer --format openai\n"
    "  msgstore view trace.log --raw\n"
    "\n"
    "usage: msgstore view [OPTION...] [STORE...] [SESSION]\n"
    "Shows messages: all, or the views that are named, together. A type with a * was\n"
    "amended, one with a ~ is being written (or its writer died).\n"
    JOIN_HELP,
    true,
};
