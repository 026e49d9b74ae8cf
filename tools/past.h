/* The prompts of deleted sessions. Claude Code deletes transcripts after 30 days, and
 * keeps what its user typed in history.jsonl, a line a prompt: {display, pastedContents,
 * timestamp, project, sessionId}.
 *
 * (HP1) Prompts are stored of sessions alone of which the log has no transcript, in the
 * location of the session, marked `"history":true`, each once by its key.
 * (HP2) When the transcript of such a session comes, they are hidden. */

#ifndef PAST_H
#define PAST_H

#include "identity.h"

typedef struct past_counts {
    uint64_t prompts, sessions; /* new ones */
    uint64_t unnamed;         /* prompts without a session: of older versions */
    uint64_t bad_lines;       /* not JSON, or without the text of a prompt */
    uint64_t hidden;          /* a transcript has them now */
} past_counts;

/* Returns whether a text is such a file. */
bool past_shows(ms_str text);
/* Stores the prompts of a file. After all transcripts: the log must have those. */
int past_take(ms_store *store, const char *path, past_counts *counts);

#endif /* PAST_H */
