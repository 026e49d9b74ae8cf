/* The goals of the benchmarks, and the lines that report a figure beside its goal.
 *
 * A row of the table is found by its id and by which of the id's figures it is about;
 * times are of one message, query or call. A figure with unit "x" is a ratio of two that
 * were measured in the same run. The goal "log" has no number of the comparison with
 * other stores. Programs that measure print figures only; the verdict comes from here.
 */

#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_goal {
    const char *id, *which, *what;
    const char *peer;         /* NULL: not a ratio to another store */
    double must, stretch;     /* 0: none */
    const char *unit;
    bool at_least;            /* a good value is not less; else not more */
} bench_goal;

extern const bench_goal bench_goals[];
extern const size_t bench_n_goals;

/* Returns whether a goal has that id and `which`, which may end with a number of messages:
 * "time, 10k". bench_goal_find returns the first such goal, or NULL. */
bool bench_goal_names(const bench_goal *goal, const char *id, const char *which);
const bench_goal *bench_goal_find(const char *id, const char *which);

/* Returns "MISSED", "reached" or "stretch"; "-" without a goal. A row that only has a
 * stretch is never missed: it is "-", and not counted, until it reaches the stretch. */
const char *bench_verdict(const bench_goal *goal, double value);

/* Prints a line for each figure, and at the end how many goals were reached and missed.
 * goal may be NULL; noted follows the line. */
void bench_print_columns(void);
void bench_print_line(const bench_goal *goal, const char *what, double value,
                      const char *unit, double least, double most, const char *noted);
void bench_print_counts(void);

#endif /* BENCH_TABLE_H */
