/* Stores: the only place that opens and closes them, reports damage in them, and
 * chooses what a command looks at. */

#ifndef STORE_H
#define STORE_H

#include "intake.h"
#include "listing.h"

#include <sys/stat.h>


/* ---- Stores: the only place that opens them ---------------------------------------- */

enum { EVENTS_MAX = 1000 };

/* The state of a command. */
typedef struct job {
    const options *options;
    ms_store *store;          /* NULL: none is open */
    bool log;                 /* the store is a log file, */
    bool appends;             /* opened for appending */
    ms_arena arena;
    ms_log_event *events;      /* events of a log, each range once, at most EVENTS_MAX */
    size_t n_events, reported; /* how many, and how many of them were printed */
    struct part *parts;        /* the stores that `store` joins; empty: it is one
                                  itself */
    size_t n_parts;
    bool lossy;               /* a file of messages was damaged */
    bool damage_told;         /* so was what was listed or read: it was reported */
    const char *lister;       /* what lists sessions, in complaints; NULL: this program */
    bool none;                /* nothing was found: exit code 1, or 3 with damage */
    tally names;              /* of conversations that were read */
    counts counts;            /* of the entries read from transcripts */
    rescue rescue;            /* and of skipped input */
} job;

/* One of several stores that are read as one. */
typedef struct part {
    job job;
    options options;          /* with its own file as the first */
} part;

enum { EVENT_TEXT = 200 };

/* Returns "damaged    bytes 4096 to 4199, between messages 3 and 5". */
const char *event_text(const ms_log_event *e, char out[EVENT_TEXT]);
void print_events(output *out, job *j);

/* Prints the events on stderr, for commands whose output is not a report. */
void complain_of_events(job *j);

/* Sets how a log is opened for writing, from the options. */
void set_writing(const options *o, ms_log_desc *desc);

/* What distinguishes a file from another one, or from an older copy: the bytes of the
 * superblock that never change, and the watermark, which only grows. */
enum { FIXED_BYTES = 52, MARK_AT = 1024 };
typedef struct log_file {
    struct stat st;
    unsigned char fixed[FIXED_BYTES];
    uint64_t mark;
} log_file;

/* Reads what identifies the file of a log; of one too short for that it is zeros. false:
 * it cannot be read, see errno. */
bool log_file_look(const char *path, log_file *f);

/* Returns whether the file is a log, by its first bytes. */
bool is_log(const char *path);
int open_log(job *j, const char *path, const ms_log_desc *how);
int open_to_read(job *j);

/* Opens or makes the log, to append to it. *newest: its last sequence number. */
int open_to_append(job *j, bool keep_unset_times, uint64_t *newest);

/* Stores the messages of one object, all or none. seqs may be NULL. */
int store_messages(ms_store *store, const taken *t, uint64_t *seqs);

/* Opens a store in memory. */
int open_memory(job *j);
/* Reads a path into the open store; messages outside of transcripts go to `messages`. */
int take_into(job *j, const char *path, const sink *messages, bool guess_agent,
              bool rename);

/* Returns the agent of all messages of a location, if it is one that works for another:
 * a subagent's own session; else absent. */
ms_str only_agent(job *j, ms_str location);

/* Opens the argument STORE: a log for reading, or a file of messages as a store in
 * memory. */
int open_store(job *j);

/* Opens the first n arguments as one store. */
int open_stores(job *j, size_t n);

/* Returns the store if it is a union of several, else NULL. */
ms_store *joined_store(const job *j);

/* Closes everything; DAMAGED if something could not be read. */
int close_job(job *j);


/* ---- Choosing messages ------------------------------------------------------------- */

/* Lists the locations, or the agents of one. A name that is not among them is probably
 * misspelled: NOT_FOUND. An absent name allows any. */
int look_up(job *j, bool agents, ms_str location, ms_str name, ms_listing *list);

/* As ms_list. Of damage it complains once, and goes on with what can be listed. */
ms_result list_names(job *j, const ms_list_query *query, ms_arena *arena,
                     ms_listing *list, ms_error *err);

/* Finds the location with this name, or the only one whose name contains it. */
int resolve(job *j, const ms_listing *list, ms_str name, ms_str *location);
/* Returns whether a store on a server has messages of exactly this location: listing all
 * of them there costs its index. */
bool is_on_server(job *j, ms_str name);
/* Sets the location to show: the named one, which must exist. Without a name it is the
 * only one if the command needs one, else absent, for all. */
int choose_location(job *j, const char *name, bool needed, ms_str *location);

/* Replaces each --location by the name that it resolves to. */
int resolve_all(job *j);
/* Returns whether the options name that location, or none. */
bool is_wanted(const options *o, ms_str location);

/* Makes the query of the options, without a location. */
ms_query query_of(const options *o, ms_arena *arena);

/* Counts the messages that a query with --since or --until leaves out because they have
 * no time; of one without these, 0. It reads each message of the location and views, so a
 * store on a server is not asked: 0. What is damaged is not counted: the query itself
 * meets it. */
uint64_t count_undated(job *j, const ms_query *query);
/* Writes that count on stderr, unless it is 0. */
void complain_of_undated(job *j, const ms_query *query);

#endif /* STORE_H */
