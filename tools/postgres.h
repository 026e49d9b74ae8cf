/* Stores over PostgreSQL, by their URL. A tool without libpq reports an error. */

#ifndef POSTGRES_H
#define POSTGRES_H

#include "store.h"

/* Returns whether the argument names a server: postgresql://... or postgres://... */
bool is_postgres(const char *path);
/* Opens it, to read or to append. */
int open_postgres(job *j, const char *url, bool write);

/* Waits until a location has records after *place, see ms_pg_wait. *moved: it has, or the
 * server could not be asked. */
ms_result wait_postgres(job *j, ms_str location, uint64_t *place, uint32_t ms,
                        bool *moved, ms_error *err);

#endif /* POSTGRES_H */
