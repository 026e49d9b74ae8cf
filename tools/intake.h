/* From a file, a folder or standard input into a store: transcripts by their readers,
 * the rest as messages. */

#ifndef INTAKE_H
#define INTAKE_H

#include "formats.h"
#include "input.h"

typedef struct intake {
    ms_store *store;
    const options *options;
    counts *counts;
    rescue *rescue;           /* NULL: bad input ends the reading */
    const sink *messages;     /* for messages outside of transcripts */
    bool guess_agent;
    bool rename;              /* --location names sessions of transcripts */
    bool whole;               /* a file that ends early is damaged; else it may grow */
    ms_result (*put)(void *ctx, const trace *t, const trace_batch *b, ms_error *err);
                              /* see trace_desc */
    void *ctx;
    identities *stored;       /* likewise */
} intake;

/* Reads all of a path into the store ("-" is standard input; a folder: its transcripts
 * and files of messages). */
int take_path(const intake *in, const char *path);

/* Reads one text of a transcript. Its first `before` bytes had the known messages (0:
 * compare them). The trace is ended, not freed. */
int take_transcript(const intake *in, const fileformat *f, ms_str text, const char *path,
                    const trace_known *known, uint64_t before, trace **out,
                    uint64_t *done);

/* Writes "3 a, 1 b"; where the buffer has no room for all, "and N more" ends it. */
void tally_words(const tally *t, char *out, size_t size);
/* Reports unknown entries on standard error. */
void complain_of_unknown(const counts *c, const char *path);
/* Reports entries with bad UTF-8 on standard error, and counts from 0 again. */
void complain_of_repaired(counts *c, const char *path);
void counts_free(counts *c);

#endif /* INTAKE_H */
