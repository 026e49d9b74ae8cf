/* The SQLite store of the examples as a kind of store: in memory, without changes. */

#ifndef SQLITE_KIND_H
#define SQLITE_KIND_H

#define MSGSTORE_EXAMPLE_NO_MAIN
#include "examples/sqlite_store.c"

#include "stores.h"

static ms_result open_sqlite(test_store *s, const store_options *options, ms_error *err)
{
    return sqlite_store_open(&s->store, ":memory:", err);
}

static store_kind sqlite_kind = {"sqlite", false, false, false, false, open_sqlite};

#endif /* SQLITE_KIND_H */
