/* sync by the clock: a timer of systemd for the user, or a line for crontab. */

#ifndef KEEP_H
#define KEEP_H

#include "files.h"

/* Writes msgstore-sync.service and .timer into systemd's folder of the user, which sync
 * the log hourly; prints how to start the timer, and the line for crontab. Systems without
 * Linux get the line alone. */
int keep_install(const options *o, output *out);
/* Removes both files. NOT_FOUND: there are none. */
int keep_remove(output *out);

#endif /* KEEP_H */
