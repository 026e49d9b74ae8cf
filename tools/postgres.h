/* Stores over PostgreSQL, by their URL. A tool without libpq reports an error. */

#ifndef POSTGRES_H
#define POSTGRES_H

#include "store.h"

/* Returns whether the argument names a server: postgresql://... or postgres://... */
bool is_postgres(const char *path);
/* Opens it, to read or to append. */
int open_postgres(job *j, const char *url, bool write);

#endif /* POSTGRES_H */
