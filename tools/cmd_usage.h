/* Sums of tokens and costs, for the commands that print them and that answer with
 * them. */

#ifndef CMD_USAGE_H
#define CMD_USAGE_H

#include "costs.h"

typedef struct usage_group {
    ms_str name;              /* the model, the day, ...; empty: not known */
    cost_row sum;
} usage_group;

typedef struct usage_report {
    job *job;
    cost_by by;               /* --by */
    usage_group *groups;      /* stb_ds arrays: days in their order, others by tokens */
    cost_row total;
    cost_row *rows;
    tally index;              /* name -> group, by its number */
    tally unpriced;           /* models without a price: answers, tokens */
    int64_t since_ns, until_ns;
    tally_row undated;        /* answers without a time that are left out */
    prices prices;
} usage_report;

/* Adds up the answers of a location (absent: of all) with --by, --since, --until, --agent
 * and --prices of the job's options; texts are in its arena. DAMAGED: some could not be
 * read. The report is to be freed in each case. */
int usage_sum_up(usage_report *u, job *j, ms_str location);
void usage_free(usage_report *u);

/* Writes an object: the name, as a member of that name, and the numbers. name may be
 * NULL. */
void json_usage_row(ms_json_writer *w, const char *name, ms_str value,
                    const cost_row *row);

#endif /* CMD_USAGE_H */
