/* msgstore info --usage: what the usage notes of messages add up to, by location, by
 * agent and by turn, as tables or as members of the JSON object. Of hidden messages
 * nothing is counted. It uses the output of msgstore.c. */

#ifndef USAGE_H
#define USAGE_H

#include "store.h"

int print_usage(output *out, job *j);

/* Always all rows: nobody counts lines there. */
int json_usage(ms_json_writer *w, job *j);

#endif /* USAGE_H */
