/* The formats of transcripts, their detection, and the way from a text, a file or a
 * folder into a trace. */

#ifndef FORMATS_H
#define FORMATS_H

#include "files.h"
#include "read.h"

/* Returns the formats in the order of detection; NULL after the last. */
const fileformat *format_at(size_t index);
/* Returns the first format of that name, or NULL. */
const fileformat *format_find(ms_str name);

/* Complains and returns USAGE if --from names a format of transcripts, which `command`
 * cannot read. */
int refuse_transcripts(const char *command, const options *o);

/* Returns the format of a text, or NULL. all: the text is the whole file. */
const fileformat *format_of(ms_str text, bool all);
/* Returns the program whose format a text has, which is not read; NULL: not known. */
const char *foreign_of(ms_str text);
/* Describes a text of an unknown format: what foreign_of returns, its members, or that it
 * is no JSON. */
void describe_unknown(ms_str text, char *out, size_t size);

/* Returns the length of the whole object that a text begins with, before another one;
 * 0 if there is none. err: why the text is no value. */
size_t first_object(ms_str text, const ms_error *err);

/* Returns whether a document with this beginning may have a known format. */
bool format_hinted(ms_str head);

/* Reads a text in that format into a trace, which the caller ends. Bad JSON is reported
 * and skipped: DAMAGED at the end, or with --strict FAILED at once. *done: the bytes
 * that were read. growing: an incomplete last line is being written, so that it is left
 * for the next call. */
int format_read(const fileformat *f, ms_str text, trace *t, const char *path,
                const options *o, counts *c, bool growing, uint64_t *done);

/* What is not read, since what it belongs to is absent: rows, or files. */
typedef struct unit_lost {
    const char *what;
    uint64_t rows;            /* 0: files */
    char **files;             /* that no file is named for: an stb_ds array, */
    char **owners;            /* and the files that may yet say that they are theirs */
    char *root;               /* the files are in ROOT/KIND */
    const char *kind;
} unit_lost;

/* A part of a folder that is one transcript, or what belongs to none. */
typedef struct unit {
    char *path;               /* a file, or the folder of events */
    char *root;               /* of OpenCode's tree; NULL for other formats */
    bool events;              /* a folder of OpenHands' events */
    uint64_t size;
    int64_t changed;          /* nanoseconds since 1970 */
    char *session;            /* the only one to read of a database; NULL: all of it */
    unit_lost *lost;          /* it is no transcript: its text says what is left out */
} unit;

/* Returns the units under a path, by name, in an stb_ds array. others: see paths_of. */
unit *units_of(const char *path, uint64_t *others);
void units_free(unit *units);
/* Does what database_load does. FAILED also where no reader knows the rows of all
 * sessions; those of one are then of an unknown format. */
int rows_load(file_text *f, const char *path, const char *session);
/* Loads the text of a unit. DAMAGED: some parts cannot be read. */
int unit_load(const unit *u, file_text *f);

#endif /* FORMATS_H */
