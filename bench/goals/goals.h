/* What the groups of bench_goals share. A group measures what belongs together; its
 * function says above it what a figure is. goals.c has the table of groups and main(). */

#ifndef BENCH_GOALS_H
#define BENCH_GOALS_H

#include "../data.h"
#include "../system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern size_t n_messages;        /* the largest number of them */
extern size_t run_number;        /* counts from 0 */
extern bool quick;               /* shorter loops */
extern const char *shared_data;  /* the folder of test data */
extern const char *engine;       /* of the last new log, for the head of the table */
extern bench_data *data;
extern char path[4096 + 16];     /* of the log */
extern volatile unsigned long long sink; /* keeps the compiler from dropping reads */

/* Returns whether --only has the group, or a goal that it has figures for. */
bool wanted(const char *group);

/* Adds a figure of this run, with a goal (in its unit) or without. The text ends with
 * n, which record leaves out when it is 0. */
__attribute__((format(printf, 5, 6))) void hold(const char *id, const char *which,
                                                size_t n, double value, const char *what,
                                                ...);
__attribute__((format(printf, 4, 5))) void record(size_t n, double value,
                                                  const char *unit, const char *what,
                                                  ...);

void must(ms_result result, const ms_error *err);

/* Opens the file of `path`. A new log replaces the file. */
ms_store *open_log(ms_log_mode mode, ms_sync_mode sync, bool ticked);
ms_store *new_log(bool ticked);
ms_store *new_arena(void);

/* Appends messages [from, to); append_one appends any number, to its own location. */
void append(ms_store *store, size_t from, size_t to);
void append_one(ms_store *store, size_t i);

/* Makes the file: a closed log of messages [0, n), in the page cache. */
void write_log(size_t n);

/* Reads a cursor to its end and closes it; returns how many messages. */
size_t read_all(ms_cursor *it);

/* Reads a view of one of the locations 0 to n - 1, drawn; 0 has the most messages. */
enum { CONVERSATION, AGENT, GLOBAL, VIEWS };
extern const char *const view_names[VIEWS];
size_t read_view(ms_store *store, int view, size_t limit, size_t n, uint64_t *draw);

/* anonymous_mib returns RssAnon of /proc/self/status, after freed memory was returned;
 * -1: no such file. allocated returns what a log reports as allocated. Both are in
 * MiB. */
double anonymous_mib(void);
double allocated_mib(ms_store *store);

/* Returns the bytes of message i where it is only copied. */
size_t bare_size(size_t i);

/* How many appends are synced: fewer where only little is asked for. */
enum { SYNCED = 1000 };
size_t n_synced(void);

/* The groups. */
void run_append(void);
void run_warm(void);
void run_slowest(void);
void run_sync(void);
void run_threads(void);
void run_closed(void);
void read_closed(void);  /* of run_closed: tail, views, reader */
void run_get(void);
void run_crash(void);
void run_search(void);
void run_hot(void);
void run_old(void);
void run_many(void);
void run_locations(void);
void run_arena(void);
void run_keyed(void);
void run_beside(void);
void run_writers(void);
void run_changes(void);
void run_json(void);
void run_project(void);

#endif /* BENCH_GOALS_H */
