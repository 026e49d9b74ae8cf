/* See postgres.h. Only this file compiles the store over PostgreSQL. */

#define _GNU_SOURCE
#ifdef WITH_POSTGRES
#define MSGSTORE_POSTGRES_IMPLEMENTATION
#include "../msgstore.h"
#include "../backends/msgstore_postgres.h"
#endif

#include "postgres.h"

bool is_postgres(const char *path)
{
    return strncmp(path, "postgresql://", 13) == 0 ||
           strncmp(path, "postgres://", 11) == 0;
}

int open_postgres(job *j, const char *url, bool write)
{
#ifdef WITH_POSTGRES
    ms_error err;
    ms_pg_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.url = url;
    desc.read_only = !write;
    desc.connections = 2;
    desc.keep_unset_times = true;
    j->appends = write;
    ms_result result = ms_pg_open(&j->store, &desc, &err);
    return result == MS_OK ? FINE : complain_of(NULL, result, &err);
#else
    (void)j;
    (void)write;
    complain("%.20s: this program was built without libpq", url);
    return FAILED;
#endif
}
