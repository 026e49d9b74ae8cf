/* What follow knows of a log or a server, and which file is there now: a log that is
 * followed may be replaced by a rewrite, another log, or an older file. */

#ifndef FOLLOW_H
#define FOLLOW_H

#include "store.h"

/* How far the records of a store were read, or on a server those of a location. */
typedef struct track {
    uint64_t printed;         /* messages up to here were read, and printed if wanted */
    uint64_t met;             /* the newest message that was met among the records; */
    size_t n_changes;         /* how many changes after it were handled, */
    uint64_t damaged;         /* and how many records after it cannot be read, as told */
    uint64_t place;           /* of the last record; on a server alone */
} track;

typedef struct number_row {
    uint64_t key;
} number_row;

typedef struct follower {
    job *job;
    output out;
    table table;
    ms_writer writer;
    ms_arena arena;           /* of the writer */
    log_file file;            /* the open file, */
    ms_log_info info;         /* and its log; the lineage is the last known one */
    bool unsure;              /* that of the open file is not known */
    ms_stat totals;           /* of a server, before it was read the last time; */
    bool changed;             /* there were other changes before that */
    uint64_t newest;          /* number in the store */
    track all;                /* of the store, or of the location that was asked for */
    bool each;                /* numbers increase within a location only, */
    tally places;             /* so each has a track: `count` is its place in */
    track *tracks;            /* this stb_ds array, from 1 on */
    uint64_t after;           /* messages up to here are not followed, */
    uint64_t first;           /* and those before it were not read when following began */
    number_row *writing;      /* an stb_ds set: messages that were unfinished when read */
    number_row *shown;        /* likewise: messages whose changes this look has shown */
    bool reopened;            /* the log was, and nothing was read since */
    int code;                 /* DAMAGED when something could not be read */
} follower;

/* Returns the kinds of the records that are read, messages among them. */
unsigned follow_kinds(const follower *f);
/* Returns a hash of all that a change says. */
uint64_t change_hash(const ms_msg *change);

/* Forgets messages that were being written, and that the store has no more. Returns how
 * many. */
size_t follow_forget(follower *f);

/* Opens the path, and remembers which file that was, none if it is on a server. If the
 * path has another one afterwards, that is opened instead. */
int follow_open(follower *f);
/* Returns whether a file is the open one. */
bool is_followed(const follower *f, const struct stat *file);
/* Returns whether the bytes of the open file were overwritten, or the file was cut, and
 * says so. A reader has them in its memory, so that it cannot go on. */
bool is_overwritten(follower *f);

/* Looks which log the open file is of. old: the file before it, which was read to its
 * end, or NULL. Says so if the new one does not go on where the old one ended. */
int follow_compare(follower *f, ms_str location, ms_store *old);

#endif /* FOLLOW_H */
