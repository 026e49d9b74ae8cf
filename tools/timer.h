/* sync by the clock: a timer of systemd for the user, or a line for crontab. */

#ifndef TIMER_H
#define TIMER_H

#include "files.h"

/* Writes msgstore-sync.service and .timer, in systemd's folder of the user: an hourly
 * sync of the log, with the options that were given. Prints how to start it, and the line
 * for crontab. Other systems than Linux get the line alone. */
int timer_install(const options *o, output *out);
/* Removes both files. NOT_FOUND: there are none. */
int timer_remove(output *out);

#endif /* TIMER_H */
