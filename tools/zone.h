/* Local time: days, weeks and months of a time zone. */

#ifndef ZONE_H
#define ZONE_H

#include "base.h"

/* Sets the time zone: a name of the system's zones (Europe/Berlin), UTC, or an offset
 * from it (+02:00). False: there is none of that name. */
bool set_time_zone(const char *zone);
/* Returns a time that parse_time found in a text, with dates and days of that zone. */
int64_t local_time(const char *text, int64_t ns);
/* Writes the day ("2026-03-02"), the week ("2026-W10") or the month ("2026-03") of a time
 * in that zone. */
ms_str local_day(int64_t seconds, cost_by by, char out[TIME_MAX]);

#endif /* ZONE_H */
