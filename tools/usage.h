/* msgstore info --usage: sums of usage notes, by location, by agent and by turn, as
 * tables or as members of the JSON object. Hidden messages do not count. */

#ifndef USAGE_H
#define USAGE_H

#include "store.h"

int print_usage(output *out, job *j);

/* Writes all rows: JSON has no limit of lines. */
int json_usage(ms_json_writer *w, job *j);

#endif /* USAGE_H */
