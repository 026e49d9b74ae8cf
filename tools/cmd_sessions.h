/* The list of sessions of a store, for the commands that print it and that answer with
 * it. */

#ifndef CMD_SESSIONS_H
#define CMD_SESSIONS_H

#include "costs.h"

typedef struct session {
    const ms_info *info;
    ms_str agent, cwd, title, model, parent;
    cost_row cost;
    bool shown;               /* the options ask for it */
} session;

typedef struct session_list {
    job *job;
    session *items;           /* an stb_ds array, newest first */
    tally index;              /* location -> number, before they were put in order */
    uint64_t undated;         /* sessions without a time that are left out */
    unsigned masked;          /* SECRETS_* that first words are without */
    bool full;                /* complete names */
    char *folder;             /* of --cwd, made absolute */
} session_list;

/* Lists the sessions of the job's store, with --since, --until, --cwd, --agent and --grep
 * of its options; texts are in its arena. Secrets of those classes are masked in the
 * first words, before these are cut, and in program and folder, before the options choose
 * by them. costs: add up what each costs,
 * which reads all usage of the store. DAMAGED: something could not be read. The list is
 * to be freed in each case. */
int sessions_find(session_list *l, job *j, unsigned masked, bool costs);
/* Adds up the tokens of one session, where sessions_find did not, and with prices (or
 * NULL) what its answers cost. */
int session_costs(session_list *l, session *s, prices *p);
void sessions_free(session_list *l);

/* Returns the title of one location that the list has for it, without secrets of those
 * classes, in the job's arena; absent: it has none. */
ms_str session_title(job *j, const ms_info *info, unsigned masked);
/* Returns the command that resumes a session, in its folder; absent: none is known, as
 * of a subagent's, or its program has deleted it. */
ms_str resume_text(const session_list *l, const session *s);
/* Does the same for one location, whose facts are read already. */
ms_str resume_of(job *j, const ms_info *info, ms_str facts);

#endif /* CMD_SESSIONS_H */
