/* sync by the clock: a timer of systemd for the user, or a line for crontab. */

#ifndef KEEP_H
#define KEEP_H

#include "files.h"

/* Writes msgstore-sync.service and .timer, in systemd's folder of the user: an hourly
 * sync of the log. Prints how to start it, and the line for crontab. Other systems than
 * Linux get the line alone. */
int keep_install(const options *o, output *out);
/* Removes both files. NOT_FOUND: there are none. */
int keep_remove(output *out);

#endif /* KEEP_H */
