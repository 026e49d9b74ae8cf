/* msgstore view: the messages of a store. */

#define _GNU_SOURCE
#include "commands.h"

static int run_view(job *j)
{
    const options *o = j->options;
    ms_query q = query_of(o, &j->arena);
    listing l = {NULL, &q, NULL, &j->arena, NULL};
    q.by_time = o->n_files > 1 && !GIVEN(o, BY_STORE) && !GIVEN(o, RAW);
    int code = check_raw("view", o);
    if (code == FINE) code = open_stores(j, o->n_files);
    l.store = j->store;
    l.joined = joined_store(j);
    if (code == FINE) code = choose_location(j, o->location, false, &q.location);
    if (code != FINE) return code;
    if (!GIVEN(o, RAW)) return print_listing(o, &l);
    q.raw = MS_RAW_ALL;
    q.arena = NULL;
    return print_raw(o, &l);
}

const command view_command = {"view", run_view, false, 1, ANY_NUMBER, "a STORE",
    INPUT_OPTIONS | PRINT_OPTIONS | VIEW_OPTIONS | BIT(OLDEST) | BIT(RAW) | BIT(JSON) |
    BIT(BY_STORE), 0,
    "examples:\n"
    "  msgstore view trace.jsonl -n 20\n"
    "  msgstore view trace.log --location job_42 --agent worker --since 2026-03-02\n"
    "  msgstore view trace.jsonl --team worker,writer --format openai\n"
    "  msgstore view trace.log --raw\n"
    "\n"
    "usage: msgstore view [OPTION...] STORE...\n"
    "Shows messages: all, or the views that are named, together. A type with a * was\n"
    "amended, one with a ~ is being written (or its writer died).\n"
    JOIN_HELP
    "\n"
    "  --conversation   what user and assistant said\n"
    "  --agent A        what agent A did: task, action, observation, error, final,\n"
    "                   delegation; A is also the agent of those that have none\n"
    VIEW_HELP
    "  --location L     only this location, and that of messages that have none\n"
    WHEN_HELP
    "  -n, --limit N    the newest N; with --oldest the oldest N\n"
    "  --raw            every record as it stands, with its kind: messages, hidden\n"
    "                   ones too, what amends and hides them, notes, facts of\n"
    "                   locations, pieces of streams; --turn and times then choose\n"
    "                   among messages only\n"
    "  --json           with --raw: an object a line\n"
    "  --by-store       of several: one after the other, not in order of time\n"
    PRINT_HELP INPUT_HELP};
