/* From a file, a folder or standard input into a store: transcripts by their readers,
 * everything else as messages. */

#ifndef INTAKE_H
#define INTAKE_H

#include "formats.h"
#include "input.h"

typedef struct intake {
    ms_store *store;
    const options *options;
    counts *counts;
    rescue *rescue;           /* NULL: bad input ends the reading */
    const sink *messages;     /* where messages go that are in no transcript */
    bool guess_agent;
    bool rename;              /* --location names sessions of transcripts */
} intake;

/* Takes in all of a path ("-" is standard input; a folder: its transcripts, and files of
 * messages). */
int take_path(const intake *in, const char *path);

/* One text of a transcript, which had `known` messages before in its first `before` bytes
 * (0: compare them). The trace is ended, not freed. */
int take_transcript(const intake *in, const fileformat *f, ms_str text, const char *path,
              uint64_t *known, uint64_t before, trace **out, uint64_t *done);

/* Reports what was unknown and what was left out, on standard error, once. */
void complain_of_counts(const counts *c, const char *path, bool all);
void counts_free(counts *c);

#endif /* INTAKE_H */
