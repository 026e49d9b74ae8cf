/* Costs of models' answers, from the usage notes of a store, each answer once. An
 * answer has one identity in all files of a session and its subagents. If an agent
 * noted it several times, the last note counts. A repetition by another agent or
 * session does not count. Hidden messages count, since they were paid for. */

#ifndef COSTS_H
#define COSTS_H

#include "prices.h"
#include "store.h"

enum { MONEY_MAX = 328 };     /* bytes of any cost with 9 decimals, and its end */

typedef struct cost_row {
    ms_str location, agent, turn, model, tool; /* absent: not known */
    uint64_t answers;
    uint64_t seq;             /* number of the message that has the note */
    uint64_t input, cached, written, output, reasoning; /* tokens; input includes all */
    uint64_t written_1h;      /* of those written, for an hour */
    uint64_t unpriced;        /* answers whose cost is not known */
    double cost;              /* dollars, of the others */
    double total;             /* dollars of the session's answers so far; -1: not noted */
    double time;              /* seconds since 1970; 0: not known */
} cost_row;

/* Collects all answers of a location (absent: of all) in an stb_ds array; texts are in
 * the arena. DAMAGED: some notes could not be read, the array has the others. */
int costs_of(ms_store *store, ms_str location, ms_arena *arena, cost_row **rows);
/* Does the same for each location alone: what a session repeats of another one, which it
 * goes on from, counts in both. */
int costs_of_each(ms_store *store, ms_arena *arena, cost_row **rows);
void costs_add(cost_row *to, const cost_row *row);

/* Computes what answers cost that have no cost (PR1), and shares each total of a location
 * among its answers. Rows that get none have unpriced 1. */
void costs_apply(prices *p, cost_row *rows);

#endif /* COSTS_H */
