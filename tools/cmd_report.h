/* The data of a report's page, for the command that serves it. cmd_report.c describes
 * it. */

#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include "store.h"

/* Returns the classes of secrets that the options ask to mask. */
unsigned report_classes(const options *o);

/* Writes the data of a page with one session of the job's open store: its newest
 * messages, as many as the options' limit, and with `requests` what each provider would
 * get. Secrets are masked as report_classes has it. price_file: of --prices, or NULL.
 * NOT_FOUND: there is no such session. */
int report_session(job *j, ms_str location, bool requests, const char *price_file,
                   ms_buf *out);

#endif /* CMD_REPORT_H */
